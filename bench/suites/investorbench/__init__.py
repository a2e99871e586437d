"""The suite InvestorBench (arXiv 2412.18174): trading decisions day by day, on prices and news."""
