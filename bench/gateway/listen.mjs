/** Starts a server of the benchmark on a free port, which it prints as one line of JSON. */
export function announce(server) {
  const { port } = server.address()
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}` }))
}

/**
 * Keeps connections for as long as a benchmark may leave them idle. `backlog` is how many may wait
 * to be accepted; more are tried again after a second.
 */
export function listen(server, backlog = 511) {
  server.keepAliveTimeout = 600_000
  server.listen({ port: 0, host: '127.0.0.1', backlog }, () => announce(server))
}
