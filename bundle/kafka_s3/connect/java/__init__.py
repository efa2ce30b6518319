"""What does Java do where Python does otherwise? Numbers as text, dates by `SimpleDateFormat`, regular expressions. Pure functions."""
