"""What operators ask of groups of any type: to list, describe and delete them."""
