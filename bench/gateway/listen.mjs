/** Starts a server of the benchmark on a free port, which it prints as one line of JSON. */
export function announce(server) {
  const { port } = server.address()
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}` }))
}

/** Keeps connections for as long as a benchmark may leave them idle. */
export function listen(server) {
  server.keepAliveTimeout = 600_000
  server.listen(0, '127.0.0.1', () => announce(server))
}
