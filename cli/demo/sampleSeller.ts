import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The API that the demo sells, without any code for payments. It is also a faucet for visitors. */
export interface SampleSeller {
  readonly url: string
  /** Number of calls so far. */
  calls(): number
  close(): Promise<void>
}

/**
 * @param answers responses by path. Every other path returns the weather
 * @param fund sends test money to an address on either chain, and returns its balance
 */
export async function startSampleSeller(
  fund: (address: string) => Promise<object>,
  responses: Readonly<Record<string, object>>,
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
    // This path receives webhooks.
    if (pathname === '/hooks') return res.writeHead(204).end()
    const known = responses[pathname]
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
