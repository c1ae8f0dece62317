import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
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
  sessionStatuses,
  statusOf,
} from '../../core/domain/session.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { exactTime } from '../../web/components/time.ts'
import type { Api } from '../deps.ts'
import { callerOf } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import { exactly, field, isoTime, listOf, ok, paging, respond, success } from '../http/responses.ts'
import { validationError } from '../http/validation.ts'
import { hashOf, isSecretOf, secretToRetell } from './createSession.ts'
import { type OwedFees, owedByToken, tokenNameOf } from './fees.ts'
import { askedTerms, checkoutUrlOf } from './sessionView.ts'

/** Maximum number of tries. Each try after the first follows a change by another request, so a few suffice. */
const MAX_TURNS = 4

/** The token of the invoice. Required if fees are owed in several tokens. */
const invoiceBody = {
  type: 'object',
  additionalProperties: false,
  properties: {
    network: {
      type: ['string', 'null'],
      maxLength: 64,
      description: 'The network as a CAIP-2 id. Required if you owe fees on several networks.',
    },
    asset: {
      type: ['string', 'null'],
      maxLength: 64,
      description:
        'The token in which you owe the fees. Required if you owe fees in several tokens of the network.',
    },
  },
} as const

type WantedInvoice = Infer<typeof invoiceBody>

/**
 * Creates an invoice for the fees that a store owes in one token. An invoice is a payment session that pays the operator's wallet.
 * Only one invoice per token is open at a time. A concurrent or repeated request gets the same invoice if its amount is still owed,
 * or if a payment for it is in progress. Otherwise the invoice is canceled and a new one is created.
 *
 * @throws `FEES_NOT_PAYABLE` with the reason; `VALIDATION_ERROR` if the token has to be named; `CONFLICT`
 */
async function createInvoice(api: Api, store: Store, wanted: WantedInvoice): Promise<Session> {
  const { network, asset: wantedAsset } = await chooseOwed(api, store, wanted)
  const account = feesAccountOf(store.id)
  const clientReferenceId = tokenNameOf({ network, asset: wantedAsset })
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const nowMs = api.clock.now()
    const page = await api.sessions.list(account, { clientReferenceId, limit: 1, nowMs })
    const [newest] = page.sessions
    if (newest !== undefined && isProcessing(newest)) return newest
    // The fees are read after the newest invoice, so that a payment of that invoice is not charged again.
    const owed = await chooseOwed(api, store, { network, asset: wantedAsset })
    const { asset, payout } = await paymentMethods(api, owed)
    const { owedAtomic } = owed
    if (newest !== undefined && statusOf(newest, nowMs) === 'open') {
      const isSame =
        newest.asks?.amountAtomic === owedAtomic &&
        payoutFor(newest.payout, network) === payoutFor(payout, network) &&
        isSecretOf(newest, secretToRetell(api, newest.id))
      if (isSame) return newest
      // If a payment starts at this moment, the invoice stays open, and the next try reads its state.
      await api.sessions.cancel(newest.id, nowMs)
      continue
    }
    const id = randomUUID()
    const { address, symbol, decimals } = asset
    const asks: AskedToken = { network, asset: address, symbol, decimals, amountAtomic: owedAtomic }
    const key = `${clientReferenceId} after ${newest?.id ?? 'none'}`
    const view = `${api.publicUrl}/dashboard/fees`
    const made = await api.sessions.create({
      id,
      storeId: account,
      linkId: null,
      secretHash: hashOf(secretToRetell(api, id)),
      price: priceOf(owedAtomic, asset),
      payout,
      asks,
      title: `Fees of @${store.username}`,
      description: `${formatAmount(owedAtomic, decimals, 2)} ${symbol} on ${networkTitle(network)}, owed to ${api.serviceName} on ${exactTime(nowMs)}.`,
      successUrl: view,
      cancelUrl: view,
      allowedOrigin: null,
      clientReferenceId,
      metadata: {},
      // The time is later than that of every other invoice, even if the clock was set back.
      createdAtMs: Math.max(nowMs, (newest?.createdAtMs ?? 0) + 1),
      expiresAtMs: nowMs + SESSION_LIFETIME_MS,
      // Concurrent requests read the same newest invoice, so this key gives all of them the invoice that is created first.
      idempotency: { key, requestHash: hashOf(key) },
    })
    if (made.id === id || isPayable(made, nowMs) || isProcessing(made)) return made
  }
  throw new TollgateError(
    'CONFLICT',
    'The invoice was just paid or canceled by another request. Send the request again.',
    {
      retryAfterSeconds: 1,
    },
  )
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
        ? 'No fees are owed now.'
        : `No fees are owed on this network. Owed are ${shown(all)}. Set the network of one of these, and the asset if the network has several.`,
    )
  if (fitting.length > 1)
    throw validationError([
      {
        path: 'network',
        code: 'required',
        message: `Expected one token, but fees are owed in several: ${shown(fitting)}. Set the network, and the asset if the network has several.`,
      },
    ])
  return first
}

/** @throws `FEES_NOT_PAYABLE` if the fees cannot be paid now */
async function paymentMethods(api: Api, owed: OwedFees): Promise<{ asset: Asset; payout: Payout }> {
  const { network, owedAtomic, symbol } = owed
  const where = networkTitle(network)
  const payTo = payoutFor(api.feesPayTo, network)
  if (payTo === null)
    throw notPayable(
      `The operator has configured no wallet for fees on ${where} (fees.payTo). Ask the operator how to pay. The fees stay in the ledger.`,
    )
  const asset = api.assets.find(
    (one) => tokenNameOf({ network: one.network, asset: one.address }) === tokenNameOf(owed),
  )
  if (asset === undefined)
    throw notPayable(
      `${symbol} on ${where} is no longer configured, so it cannot be paid. Ask the operator how to pay.`,
    )
  const price = priceOf(owedAtomic, asset)
  const payout = { base: null, solana: null, [chainNameOf(network)]: payTo }
  const [offer] = api
    .offersOf({ price, payout })
    .filter(({ terms }) => askedTerms({ asks: { ...owed, amountAtomic: owedAtomic } }, [terms]).length > 0)
  if (offer === undefined)
    throw notPayable(`Payments on ${where} cannot be settled at the moment. Try again later.`)
  if (offer.isClosed) {
    const least = formatAmount(offer.settler.minPriceAtomic ?? 0n, 6)
    throw notPayable(
      `The owed ${shown([owed])} is worth less than ${least} USDC, the minimum payment on ${where}. Pay it together with future fees.`,
    )
  }
  await offer.payee?.refresh()
  if (offer.payee?.fault !== undefined) throw notPayable(`${offer.payee.fault} Tell the operator.`)
  return { asset, payout }
}

/** The amount in USDC, rounded up to its smallest unit. Pages show this amount, and limits count it. */
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

const invoiceSchema = exactly({
  id: { ...field.uuid, description: 'The id of the invoice, which is the id of its payment session.' },
  status: { enum: sessionStatuses },
  amount: field.text(),
  currency: field.text(),
  chain: { enum: ['base', 'solana'] },
  network: field.text('CAIP-2.'),
  asset: field.text(),
  payTo: field.text('The wallet of the operator, which receives the payment.'),
  processing: { ...field.flag, description: 'True while a payment of the invoice is being settled.' },
  checkoutUrl: field.textOrNull(
    'The page on which you can pay the invoice. Null once the invoice has ended.',
  ),
  txHash: field.textOrNull('Null until the session is paid.'),
  createdAt: field.time,
  expiresAt: {
    ...field.time,
    description: 'The end of the invoice, 30 minutes after its creation. After that, create a new invoice.',
  },
  paidAt: field.timeOrNull,
})

/**
 * `/api/v1/fees/invoices` are the invoices of the caller's store. The store pays them at the checkout, to the operator's wallet.
 */
export function invoiceRoutes(app: FastifyInstance, api: Api): void {
  app.post<{ Body: WantedInvoice }>(
    '/api/v1/fees/invoices',
    {
      // If the request has no body, the invoice is in the only token in which fees are owed.
      preValidation: async (request) => {
        request.body ??= {}
      },
      schema: {
        summary: 'Create an invoice of the owed fees',
        description:
          'Creates a payment session for all fees that you owe now in one token. The session is open for 30 minutes. You can pay the session at its checkout, by x402 (POST /api/v1/payments/:id/pay with the API key), or by an ordinary transfer from a wallet that signs in to the store (POST /api/v1/payments/:id/confirm). If you send the request again, the response is the open invoice, or a new invoice if the amount has changed. Every payment reduces the fees that you owe, even after the invoice has ended. If you pay too much, the excess pays future fees.',
        body: invoiceBody,
        response: respond({ 201: success(invoiceSchema) }, [400, 401, 409, 429]),
      },
    },
    async (request, reply) => {
      const { store } = callerOf(request)
      return reply.code(201).send(ok(view(await createInvoice(api, store, request.body))))
    },
  )

  app.get<{ Querystring: Infer<typeof paging.query> }>(
    '/api/v1/fees/invoices',
    {
      schema: {
        summary: 'List the invoices',
        description: 'Newest first.',
        querystring: paging.query,
        response: respond(
          {
            200: success(exactly({ invoices: listOf(invoiceSchema), nextCursor: paging.next })),
          },
          [400, 401, 429],
        ),
      },
    },
    async (request) => {
      const account = feesAccountOf(callerOf(request).store.id)
      const page = await api.sessions.list(account, { ...request.query, nowMs: api.clock.now() })
      return ok({ invoices: page.sessions.map(view), nextCursor: page.nextCursor })
    },
  )

  function view(session: Session) {
    const { id, asks, payout, paid, endedAtMs } = session
    if (asks === null) throw new Error(`Expected session ${id} to be an invoice.`)
    const { network, asset, symbol, decimals, amountAtomic } = asks
    const status = statusOf(session, api.clock.now())
    const isOpen = status === 'open'
    return {
      id,
      status,
      amount: formatAmount(amountAtomic, decimals, 2),
      currency: symbol,
      chain: chainNameOf(network),
      network,
      asset,
      payTo: payoutFor(payout, network) ?? '',
      processing: isOpen && session.paymentRow !== null,
      checkoutUrl: isOpen ? checkoutUrlOf(api.publicUrl, id, secretToRetell(api, id)) : null,
      txHash: paid?.txHash ?? null,
      createdAt: isoTime(session.createdAtMs),
      expiresAt: isoTime(session.expiresAtMs),
      paidAt: paid === null || endedAtMs === null ? null : isoTime(endedAtMs),
    }
  }
}
