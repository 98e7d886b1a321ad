"""What travels: reports and their ids, and the addresses that they are sent to."""
