"""What stands before the console's API: checks of every request, logins, the page's files."""
