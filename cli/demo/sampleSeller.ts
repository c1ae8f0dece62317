import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The API that the demo sells: it knows nothing of payments. Beside it, a faucet for whoever wants to try. */
export interface SampleSeller {
  readonly url: string
  /** How often it was called. */
  calls(): number
  close(): Promise<void>
}

/**
 * @param answers by path; whatever else is asked for is the weather
 * @param fund gives test money to an address of either chain, and says how much it holds then
 */
export async function startSampleSeller(
  fund: (address: string) => Promise<object>,
  answers: Readonly<Record<string, object>>,
): Promise<SampleSeller> {
  let calls = 0
  const server = createServer(async (req, res) => {
    const { pathname, searchParams } = new URL(req.url!, 'http://sample')
    res.setHeader('content-type', 'application/json')
    if (pathname === '/faucet') {
      const answer = await fund(searchParams.get('address') ?? '')
      return res.end(JSON.stringify(answer))
    }
    calls++
    // Webhooks are heard, and answered with nothing.
    if (pathname === '/hooks') return res.writeHead(204).end()
    const known = answers[pathname]
    if (known !== undefined) return res.end(JSON.stringify(known))
    const city = searchParams.get('city') ?? 'Lisbon'
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
