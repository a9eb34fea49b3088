"""What commands share: settings as options, columns, JSON, progress, errors as one line."""
