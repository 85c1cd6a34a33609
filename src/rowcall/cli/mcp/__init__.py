"""`rowcall mcp`: what an assistant may look at, and change in two calls, over the Model Context Protocol."""
