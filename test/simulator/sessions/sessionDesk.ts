import { confirmSession } from '../../../admin-api/sessions/confirmSession.ts'
import { paySession } from '../../../admin-api/sessions/paySession.ts'
import { builtInAssets } from '../../../core/domain/asset.ts'
import type { Session } from '../../../core/domain/session.ts'
import type { Store } from '../../../core/domain/store.ts'
import { isTollgateError } from '../../../core/errors/error.ts'
import { createTransfers, type TransferParts } from '../../../core/payments/bookTransfer.ts'
import type { Payments } from '../../../core/payments/payments.ts'
import type { Settler } from '../../../core/ports/chains/settler.ts'
import type { TransferProofs } from '../../../core/ports/chains/transferProofs.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import type { Offer } from '../../../core/x402/offers.ts'
import { presentPayment } from '../../../core/x402/presentPayment.ts'
import { testAsset, testNetwork, testPayTo } from '../../helpers/settler.ts'

/** What one process does about payment sessions, by the functions of its routes. Each answers what its caller hears. */
export interface SessionDesk {
  /** @param header as a buyer's client sends it */
  pay(session: Session, header: string): Promise<string>
  /** @param txHash absent: it is looked for */
  confirm(session: Session, txHash?: string): Promise<string>
  cancel(session: Session): Promise<string>
  expire(): Promise<string>
}

export interface SessionDeskParts extends TransferParts {
  readonly sessions: DataStore['sessions']
  readonly purchases: Pick<DataStore['purchases'], 'isOwedBack' | 'hasSold'>
  readonly payments: Payments
  readonly transferProofs: TransferProofs
  readonly settler: Settler
  /** What every session costs, in the smallest unit. */
  readonly price: number
}

export function createSessionDesk(parts: SessionDeskParts): SessionDesk {
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
      heard(async () => {
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
      heard(async () => {
        const now = (await sessions.find(session.id))!
        const body = txHash === undefined ? {} : { txHash }
        return (await confirmSession(api, store, now, body)).status
      }),
    cancel: ({ id }) => heard(async () => (await sessions.cancel(id, clock.now()))!.state),
    expire: () => heard(async () => String(await sessions.expire(clock.now(), 10))),
  }
}

/** The end of a request, or the code of its error. @throws for what is no answer */
async function heard(work: () => Promise<string>): Promise<string> {
  try {
    return await work()
  } catch (error) {
    if (isTollgateError(error)) return error.code
    throw error
  }
}
