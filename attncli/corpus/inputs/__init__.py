"""What a corpus is read from: files of lines and tables, on this machine or by address, whole or in pieces."""
