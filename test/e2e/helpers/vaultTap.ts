import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

/** Stands between an agent and its vault, and sees every payment that left the vault. */
export interface VaultTap {
  readonly url: string
  /** Different payments that the vault gave out, whether or not they reached the agent. */
  readonly payments: ReadonlySet<string>
  /** The next payment that the vault gives out does not reach the agent; `then` runs before the agent can ask again. */
  loseNextPayment(then: () => Promise<void>): void
}

export async function startVaultTap(t: Pick<Test, 'teardown'>, target: string): Promise<VaultTap> {
  const payments = new Set<string>()
  let lost: (() => Promise<void>) | undefined
  let pause: Promise<void> | undefined
  const server = createServer(async (request, response) => {
    try {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      await pause
      const { host: _host, connection: _connection, 'content-length': _length, ...headers } = request.headers
      const answer = await fetch(target + request.url!, {
        method: request.method!,
        headers: headers as Record<string, string>,
        ...(chunks.length > 0 && { body: Buffer.concat(chunks) }),
      })
      const text = await answer.text()
      const payment = JSON.parse(text).payment_header
      if (payment !== undefined) {
        payments.add(payment)
        if (lost !== undefined) {
          pause = lost()
          lost = undefined
          return request.socket.destroy()
        }
      }
      const type = answer.headers.get('content-type') ?? 'application/json'
      const retryAfter = answer.headers.get('retry-after')
      response.writeHead(answer.status, {
        'content-type': type,
        ...(retryAfter !== null && { 'retry-after': retryAfter }),
      })
      response.end(text)
    } catch {
      // The vault is gone: so is the agent's connection.
      request.socket.destroy()
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    payments,
    loseNextPayment(then) {
      lost = then
    },
  }
}
