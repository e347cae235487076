"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. All that moves them lives here."""
