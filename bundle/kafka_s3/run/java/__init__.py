"""Where do Java and the jars come from?"""
