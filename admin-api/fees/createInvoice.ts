import { randomUUID } from 'node:crypto'
import { isSameAddress } from '../../core/domain/address.ts'
import type { Asset } from '../../core/domain/asset.ts'
import { feesAccountOf } from '../../core/domain/ledger.ts'
import { type Payout, payoutFor } from '../../core/domain/link.ts'
import { formatAmount, parseAmount } from '../../core/domain/money.ts'
import { chainNameOf, familyOf, networkTitle } from '../../core/domain/network.ts'
import {
  type AskedToken,
  isPayable,
  isProcessing,
  SESSION_LIFETIME_MS,
  type Session,
  statusOf,
} from '../../core/domain/session.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { exactTime } from '../../web/components/time.ts'
import type { Api } from '../deps.ts'
import { validationError } from '../schema/validationError.ts'
import { askedTerms } from '../sessions/askedTerms.ts'
import { hashOf, isSecretOf, secretToRetell } from '../sessions/createSession.ts'
import { type OwedFees, owedByToken, tokenNameOf } from './feeStatement.ts'

/** Each turn but the first is behind somebody else's move: there are few of them. */
const MOST_TURNS = 4

/** Which of the tokens that something is owed in; needed where there are several. */
export interface WantedInvoice {
  readonly network?: string | null
  readonly asset?: string | null
}

/**
 * Makes an invoice of what a store owes in one token: a payment session whose payee is the operator's wallet. Of each token one
 * is open at a time: who asks again, in another tab or at the same moment, gets the same one while it says what is owed, or a
 * payment for it is under way; otherwise it is canceled for a new one.
 *
 * @throws `FEES_NOT_PAYABLE` that says why; `VALIDATION_ERROR` where it has to be said which token; `CONFLICT`
 */
export async function createInvoice(api: Api, store: Store, wanted: WantedInvoice): Promise<Session> {
  const { network, asset: wantedAsset } = await chooseOwed(api, store, wanted)
  const account = feesAccountOf(store.id)
  const clientReferenceId = tokenNameOf({ network, asset: wantedAsset })
  for (let turn = 0; turn < MOST_TURNS; turn++) {
    const nowMs = api.clock.now()
    const page = await api.sessions.list(account, { clientReferenceId, limit: 1, nowMs })
    const [newest] = page.sessions
    if (newest !== undefined && isProcessing(newest)) return newest
    // Read after it: what the newest one has paid is not asked for again.
    const owed = await chooseOwed(api, store, { network, asset: wantedAsset })
    const { asset, payout } = await waysToPay(api, owed)
    const { owedAtomic } = owed
    if (newest !== undefined && statusOf(newest, nowMs) === 'open') {
      const isSame =
        newest.asks?.amountAtomic === owedAtomic &&
        newest.payout !== null &&
        payoutFor(newest.payout, network) === payoutFor(payout, network) &&
        isSecretOf(newest, secretToRetell(api, newest.id))
      if (isSame) return newest
      // A payment that begins at this moment keeps it: the next turn says how it stands.
      await api.sessions.cancel(newest.id, nowMs)
      continue
    }
    const id = randomUUID()
    const { address, symbol, decimals } = asset
    const asks: AskedToken = { network, asset: address, symbol, decimals, amountAtomic: owedAtomic }
    const key = `${clientReferenceId} after ${newest?.id ?? 'none'}`
    const view = `${api.publicUrl}/dashboard/fees`
    const made = await api.sessions.create({
      ...{ id, storeId: account, linkId: null, secretHash: hashOf(secretToRetell(api, id)) },
      ...{ price: priceOf(owedAtomic, asset), payout, asks },
      title: `Fees of @${store.username}`,
      description: `${formatAmount(owedAtomic, decimals, 2)} ${symbol} on ${networkTitle(network)}, owed to ${api.serviceName} on ${exactTime(nowMs)}.`,
      ...{ successUrl: view, cancelUrl: view, allowedOrigin: null, clientReferenceId, metadata: {} },
      // The newest of all also where the clock was put back.
      createdAtMs: Math.max(nowMs, (newest?.createdAtMs ?? 0) + 1),
      expiresAtMs: nowMs + SESSION_LIFETIME_MS,
      // Whoever asks at once saw the same newest one, and gets the one that is made first.
      idempotency: { key, requestHash: hashOf(key) },
    })
    if (made.id === id || isPayable(made, nowMs) || isProcessing(made)) return made
  }
  throw new TollgateError('CONFLICT', 'The invoice was paid or canceled at this moment. Ask again.', {
    retryAfterSeconds: 1,
  })
}

async function chooseOwed(api: Api, { id }: Store, { network, asset }: WantedInvoice): Promise<OwedFees> {
  const all = owedByToken(await api.fees.months(id), api.assets).filter(({ owedAtomic }) => owedAtomic > 0n)
  const fitting = all.filter(
    (one) =>
      (network == null || one.network === network) &&
      (asset == null || isSameAddress(familyOf(one.network), asset, one.asset)),
  )
  const [first] = fitting
  if (first === undefined)
    throw notPayable(
      all.length === 0
        ? 'Nothing is owed now.'
        : `Nothing is owed there; what is owed is ${shown(all)}. Name its network, and its asset where there are several.`,
    )
  if (fitting.length > 1)
    throw validationError([
      {
        ...{ path: 'network', code: 'required' },
        message: `An invoice is of one token; owed is ${shown(fitting)}. Name the network, and the asset where there are several.`,
      },
    ])
  return first
}

/** @throws `FEES_NOT_PAYABLE` for what could not be paid now */
async function waysToPay(api: Api, owed: OwedFees): Promise<{ asset: Asset; payout: Payout }> {
  const { network, owedAtomic, symbol } = owed
  const where = networkTitle(network)
  const payTo = payoutFor(api.feesPayTo, network)
  if (payTo === null)
    throw notPayable(
      `The operator has named no wallet for fees on ${where}: in the configuration it is fees.payTo. Ask how to pay; the fees stay in the books.`,
    )
  const asset = api.assets.find(
    (one) => tokenNameOf({ network: one.network, asset: one.address }) === tokenNameOf(owed),
  )
  if (asset === undefined)
    throw notPayable(
      `${symbol} on ${where} is not configured any more, so that nothing can be paid in it. Ask the operator how to pay.`,
    )
  const price = priceOf(owedAtomic, asset)
  const payout = { base: null, solana: null, [chainNameOf(network)]: payTo }
  const [offer] = api
    .offersOf({ price, payout })
    .filter(({ terms }) => askedTerms({ asks: { ...owed, amountAtomic: owedAtomic } }, [terms]).length > 0)
  if (offer === undefined)
    throw notPayable(`Nobody settles payments on ${where} at the moment. Try again later.`)
  if (offer.isClosed) {
    const least = formatAmount(offer.settler.minPriceAtomic ?? 0n, 6)
    throw notPayable(
      `What is owed, ${shown([owed])}, is worth less than ${least} USDC, the least that is settled on ${where}. It is paid with the fees to come.`,
    )
  }
  await offer.payee?.look()
  if (offer.payee?.fault !== undefined) throw notPayable(`${offer.payee.fault} Tell the operator.`)
  return { asset, payout }
}

/** In USDC, rounded up to its smallest unit: what pages show, and limits look at. */
function priceOf(atomic: bigint, { usdPerUnit, decimals }: Asset): string {
  const unit = 10n ** BigInt(decimals + 12)
  return formatAmount((atomic * parseAmount(usdPerUnit, 18) + unit - 1n) / unit, 6, 2)
}

const shown = (owed: readonly OwedFees[]): string =>
  owed
    .map(
      (one) =>
        `${formatAmount(one.owedAtomic, one.decimals, 2)} ${one.symbol} on ${networkTitle(one.network)}`,
    )
    .join(', ')

const notPayable = (message: string) => new TollgateError('FEES_NOT_PAYABLE', message)
