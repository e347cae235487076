"""Log directories become Arrow tables. Nothing below here imports Spark, and nothing needs Java."""
