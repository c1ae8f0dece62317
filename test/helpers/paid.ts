import type { Test } from 'tap'
import { paymentStates } from '../../core/domain/payment.ts'
import { startGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts'
import { until } from './rawHttp.ts'
import { sellerOf } from './sellerOf.ts'
import { createScriptedSettler, scriptedPayment } from './settler.ts'

export const shortPlugins = [
  { use: 'x402' },
  { use: 'replay-guard', with: { joinTimeoutMs: 300 } },
  {
    use: 'upstream',
    with: { headersTimeoutMs: 300, bodyTimeoutMs: 300, answerTimeoutMs: 600, maxAnswerBytes: 4096 },
  },
  { use: 'purchase-record' },
]

export async function startPaid(t: Test, options: TestGatewayOptions = {}) {
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, { settlers: [settler], plugins: shortPlugins, ...options })
  const headers = { 'payment-signature': scriptedPayment('n', '100000') }
  return {
    settler,
    gateway,
    headers,
    call: (url: string, init: RequestInit = {}) =>
      ask(url, { ...init, headers: { ...headers, ...init.headers } }),
  }
}

/** Calls a link of this price, and goes while its seller works. Resolves when the call has ended. */
export async function callAndGo(
  t: Test,
  { gateway, call }: Awaited<ReturnType<typeof startPaid>>,
  price: string,
): Promise<void> {
  const asked = Promise.withResolvers<void>()
  const seller = await sellerOf(t, () => asked.resolve())
  const { url } = await gateway.addLink({ slug: 'slow', url: seller.url, price })
  const leaving = new AbortController()
  const called = t.rejects(call(url, { signal: leaving.signal }))
  await asked.promise
  leaving.abort()
  await called
  await until(() => gateway.gateway.calls.counts().underWay === 0, 'the call to end')
}

interface Asked {
  status: number
  body: { error?: { code: string; message: string; reason?: string } | string; purchaseId?: string } & Record<
    string,
    unknown
  >
  headers: Headers
  text: string
}

async function ask(url: string, init: RequestInit): Promise<Asked> {
  const response = await fetch(url, init)
  const text = await response.text()
  return { status: response.status, body: parse(text), headers: response.headers, text }
}

function parse(text: string) {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

export const receiptOf = (headers: Headers) =>
  JSON.parse(Buffer.from(headers.get('payment-response') ?? 'bnVsbA==', 'base64').toString())

const rowsOf = ({ store }: TestGateway) => store.books.list({ states: paymentStates, limit: 100 })
export const stateOf = async (gateway: TestGateway) => (await rowsOf(gateway))[0]?.state
export const reaches = (gateway: TestGateway, state: string) =>
  until(async () => (await stateOf(gateway)) === state, `the state ${state}`)
