import type { DemoBuyer } from '../../localnet/demoBuyer.ts'
import type { Demo } from './startDemo.ts'

/** One paid call, and what became of the same payment when it was used for a second one. */
export interface DemoPayment {
  readonly network: string
  readonly status: number
  readonly purchaseId: string | null
  readonly transaction: string | null
  readonly amountAtomic: string | null
  readonly sellerBeforeAtomic: string
  readonly sellerAfterAtomic: string
  /** The payment used again, for another call: refused. */
  readonly replay: { readonly status: number; readonly code: string | null }
  readonly answer: unknown
}

export async function payOnce(demo: Demo, buyer: DemoBuyer, city: string): Promise<DemoPayment> {
  const url = addressOf(demo)
  const before = await demo.sellerBalance(buyer.network)
  const response = await buyer.fetch(`${url}?city=${city}`)
  const body = (await response.json()) as { data?: unknown; _svc?: { purchaseId: string } }
  const receipt = receiptOf(response.headers.get('payment-response'))
  const after = await demo.sellerBalance(buyer.network)
  return {
    network: buyer.network,
    status: response.status,
    purchaseId: body._svc?.purchaseId ?? null,
    transaction: receipt?.transaction ?? null,
    amountAtomic: receipt?.amount ?? null,
    sellerBeforeAtomic: before.toString(),
    sellerAfterAtomic: after.toString(),
    replay: await replay(`${url}?city=${city}-again`, buyer),
    answer: body.data ?? body,
  }
}

/** True when the seller got exactly what the buyer paid, and the payment bought nothing twice. */
export function holds({
  status,
  amountAtomic,
  sellerBeforeAtomic,
  sellerAfterAtomic,
  replay: again,
}: DemoPayment): boolean {
  const moved = BigInt(sellerAfterAtomic) - BigInt(sellerBeforeAtomic)
  return status === 200 && amountAtomic !== null && moved === BigInt(amountAtomic) && again.status === 409
}

async function replay(url: string, buyer: DemoBuyer): Promise<DemoPayment['replay']> {
  const payment = buyer.lastPayment()
  if (payment === undefined) return { status: 0, code: null }
  const response = await fetch(url, { headers: { 'payment-signature': payment } })
  const body = (await response.json()) as { error?: { code?: string } }
  return { status: response.status, code: body.error?.code ?? null }
}

/** The link's address on the listener itself: the public URL may name a port that was taken. */
function addressOf({ link, tollgate }: Demo): string {
  return tollgate.gatewayUrl + new URL(link.url).pathname
}

function receiptOf(header: string | null): { transaction: string; amount?: string } | undefined {
  return header === null ? undefined : JSON.parse(Buffer.from(header, 'base64').toString('utf8'))
}
