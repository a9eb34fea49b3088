"""How clients prove who they are, and what they may do."""
