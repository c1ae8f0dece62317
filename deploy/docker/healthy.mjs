// The image's health check, in an image without curl: asks the gateway in this container whether it answers, and ends with
// status 0 when it does. TOLLGATE_PORT names gateway.port where a configuration has another one, or monitoring.port where it has that.
const port = process.env.TOLLGATE_PORT ?? '8080'
try {
  const answer = await fetch(`http://127.0.0.1:${port}/healthz`, { signal: AbortSignal.timeout(4000) })
  if (!answer.ok) throw new Error(`/healthz answered ${answer.status}`)
} catch (error) {
  console.error(error.cause?.message ?? error.message)
  process.exitCode = 1
}
