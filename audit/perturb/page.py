def write_page(run_dir, out, verdict, library, facts):
    return out / "report.html", (), ()
