"""The servers that the tests run on, started once, and a pipeline of its own for each test."""

pytest_plugins = ["fix_servers", "fix_mariadb", "fix_pipeline", "fix_habits", "fix_consumer"]
