"""What every room stands on: errors, language, where things lie."""
