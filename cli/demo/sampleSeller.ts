import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The API that the demo sells: it knows nothing of payments. */
export interface SampleSeller {
  readonly url: string
  /** How often it was called. */
  calls(): number
  close(): Promise<void>
}

export async function startSampleSeller(): Promise<SampleSeller> {
  let calls = 0
  const server = createServer((req, res) => {
    calls++
    const city = new URL(req.url!, 'http://sample').searchParams.get('city') ?? 'Lisbon'
    res.writeHead(200, { 'content-type': 'application/json' })
    res.end(JSON.stringify({ city, temperatureC: 21, sky: 'clear', asOf: new Date().toISOString() }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    calls: () => calls,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
