import type { Test } from 'tap'
import { startGateway } from './gateway.ts'
import { createScriptedSettler, scriptedPayment } from './settler.ts'

/** What a seller may take and answer. */
export const limits = {
  headersTimeoutMs: 400,
  bodyTimeoutMs: 400,
  responseTimeoutMs: 1_000,
  maxResponseBytes: 100_000,
  maxRequestBytes: 32 * 1024 * 1024,
}

/** Plugins that wait for a seller less than half a second. */
export const impatientPlugins = (more: object = {}) => [
  { use: 'x402' },
  { use: 'replay-guard' },
  { use: 'upstream', with: { ...limits, ...more } },
  { use: 'purchase-record' },
]

/** A gateway that waits less than half a second, and headers that pay, each once. */
export async function startImpatient(t: Test, prefix: string) {
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, { settlers: [settler], plugins: impatientPlugins() })
  let payments = 0
  const pay = () => ({ 'payment-signature': scriptedPayment(`${prefix}-${payments++}`, '100000') })
  return { settler, gateway, pay }
}

/** The status of an answer, read to its end. */
export const statusOf = async (response: Response): Promise<number> => {
  await response.arrayBuffer()
  return response.status
}

/** The text of a request, for a socket. */
export const get = (path: string, more = ''): string => `GET ${path} HTTP/1.1\r\nHost: g\r\n${more}\r\n`
