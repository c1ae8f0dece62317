import { confirmSession } from '../../../admin-api/payments/confirmSession.ts'
import { paySession } from '../../../admin-api/payments/paySession.ts'
import { builtInAssets } from '../../../core/domain/asset.ts'
import type { Session } from '../../../core/domain/session.ts'
import type { Store } from '../../../core/domain/store.ts'
import { isTollgateError } from '../../../core/errors/error.ts'
import type { Offer } from '../../../core/offers/offers.ts'
import { presentPayment } from '../../../core/offers/presentedPayment.ts'
import type { Payments } from '../../../core/payments/payments.ts'
import { createTransfers, type TransferDeps } from '../../../core/payments/transfers.ts'
import type { Settler } from '../../../core/ports/chains/settler.ts'
import type { TransferProofs } from '../../../core/ports/chains/transferProofs.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import { testAsset, testNetwork, testPayTo } from '../../helpers/settler.ts'

/** What one process does about payment sessions, by the functions of its routes. Each answers what its caller hears. */
export interface SessionRoutes {
  /** @param header as a buyer's client sends it */
  pay(session: Session, header: string): Promise<string>
  /** @param txHash absent: it is looked for */
  confirm(session: Session, txHash?: string): Promise<string>
  cancel(session: Session): Promise<string>
  expire(): Promise<string>
}

export interface SessionRoutesDeps extends TransferDeps {
  readonly sessions: DataStore['sessions']
  readonly purchases: Pick<DataStore['purchases'], 'isOwedBack' | 'hasSold'>
  readonly payments: Payments
  readonly transferProofs: TransferProofs
  readonly settler: Settler
  /** What every session costs, in the smallest unit. */
  readonly price: number
}

export function createSessionRoutes(parts: SessionRoutesDeps): SessionRoutes {
  const { sessions, payments, clock, settler, price } = parts
  const store = { id: 'seller', payout: { base: testPayTo, solana: null } } as Store
  const terms = {
    ...{ scheme: 'exact', network: testNetwork, asset: testAsset, payTo: testPayTo },
    ...{ amount: String(price), maxTimeoutSeconds: 300, extra: {} },
  }
  const api = {
    ...{ ...parts, assets: builtInAssets, transfers: createTransfers(parts), termsOf: () => [terms] },
    links: { find: async () => undefined },
    feesPayTo: { base: null, solana: null },
    stores: { byWallet: async () => undefined, paidLonger: async () => [] },
  } as unknown as Parameters<typeof confirmSession>[0]

  return {
    pay: (session, header) =>
      responseOf(async () => {
        const offers = [{ terms, settler, isClosed: false } as unknown as Offer]
        const presented = await presentPayment(header, 2, {
          offers,
          payments,
          acceptV1: false,
          publicUrl: 'https://pay.example',
          host: () => undefined,
        })
        await paySession(api, session, presented)
        return 'paid'
      }),
    confirm: (session, txHash) =>
      responseOf(async () => {
        const now = (await sessions.find(session.id))!
        const body = txHash === undefined ? {} : { txHash }
        return (await confirmSession(api, store, now, body)).status
      }),
    cancel: ({ id }) => responseOf(async () => (await sessions.cancel(id, clock.now()))!.state),
    expire: () => responseOf(async () => String(await sessions.expire(clock.now(), 10))),
  }
}

/** The end of a request, or the code of its error. @throws for what is no answer */
async function responseOf(work: () => Promise<string>): Promise<string> {
  try {
    return await work()
  } catch (error) {
    if (isTollgateError(error)) return error.code
    throw error
  }
}
