/** The texts of the dashboard's files by their path on the server: `/index.html` is the page. */
export declare const dashboardFiles: ReadonlyMap<string, string>
