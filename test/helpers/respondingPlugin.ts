import type { Test } from 'tap'
import { paymentStates } from '../../core/domain/payment.ts'
import { startGateway } from './gateway.ts'
import { until } from './rawHttp.ts'
import { sellerOf } from './sellerOf.ts'
import { createScriptedSettler, scriptedPayment } from './settler.ts'

/** A gateway with small limits of what a seller may answer, and payments of which each is used once. */
export async function startAnswering(t: Test, prefix: string) {
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, {
    settlers: [settler],
    plugins: [
      { use: 'x402' },
      { use: 'replay-guard', with: { joinTimeoutMs: 3_000, maxBodyBytes: 1000 } },
      {
        use: 'upstream',
        with: {
          headersTimeoutMs: 500,
          bodyTimeoutMs: 500,
          responseTimeoutMs: 2_000,
          maxResponseBytes: 100_000,
        },
      },
      { use: 'purchase-record' },
    ],
  })
  let count = 0
  const payment = () => ({ 'payment-signature': scriptedPayment(`${prefix}-${count++}`, '100000') })
  type Headers = ReturnType<typeof payment>
  const stateOf = async (headers: Headers) => {
    const { nonce } = JSON.parse(Buffer.from(headers['payment-signature'], 'base64').toString()).payload
    const rows = await gateway.store.ledger.list({ states: paymentStates, limit: 1_000 })
    return rows.find((row) => row.nonce === nonce)?.state
  }
  return {
    settler,
    gateway,
    payment,
    paidLink: (slug: string, url: string, more: object = {}) =>
      gateway.addLink({ slug, url, price: '0.10', ...more }),
    /** Fulfilled when the payment is in this state. */
    reaches: (headers: Headers, state: string) =>
      until(async () => (await stateOf(headers)) === state, `the state ${state}`),
  }
}

/** A seller that answers these bytes with this type; `null` gives no type. */
export const answering = (
  t: Test,
  type: string | null,
  body: string | Buffer,
  head: object = {},
  status = 200,
) =>
  sellerOf(t, (_req, res) => {
    res.writeHead(status, {
      ...(type !== null && { 'content-type': type }),
      'content-length': Buffer.byteLength(body),
      ...head,
    })
    res.end(body)
  })
