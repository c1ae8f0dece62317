import { formatAmount } from '../../../core/domain/money.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { PinnedAsset } from '../../effects/assets.ts'
import { type BuiltPayment, buildPayment } from '../../effects/buildPayment.ts'
import { budgetSpends, type Effect } from '../../effects/effect.ts'
import { showText, timeWords } from '../../effects/plainWords.ts'
import { VaultError } from '../../errors/error.ts'
import { paymentRequest } from '../../requests/agentRequests.ts'
import { objectIn } from '../../requests/request.ts'
import { accountOn, keyOn, sharedKeyRisk } from '../chainOf.ts'
import type { VaultDeps } from '../deps.ts'
import { hashOf, type Plan, type VaultCall, viewOf } from '../vaultCall.ts'
import { planChannel } from './channel.ts'
import { networksFor, offerPart } from './offerParts.ts'

/** Maximum time for a chain's node to return a block, in ms. */
const BUILD_TIMEOUT_MS = 20_000

/**
 * `POST /v1/vault/sign-payment` `{payment_required, max_amount, network?, url?, agent_name}` → `{payment_header}`.
 *
 * The owner approves the offer's terms: recipient, amount, asset and URL. The bytes contain a time that may have passed when
 * the owner decides. After an approval, the vault therefore builds the payment again from these terms.
 */
export async function planPayment(x: VaultCall, parts: VaultDeps): Promise<Plan> {
  const input = paymentRequest.check(x.input)
  if (input.voucher_total !== undefined) return planChannel(x, parts)
  const { payment_required: given, max_amount: maxAmount, network, url: urlText } = input
  // A header in its original form is base64 instead of JSON.
  const isHeader = typeof given === 'string' && !given.trimStart().startsWith('{')
  const paymentRequired = isHeader ? given : objectIn('payment_required', given)
  if (network !== undefined && parts.assets.chains.ofNetwork(network) === undefined)
    throw new VaultError(
      'VALIDATION_ERROR',
      'network: Expected a CAIP-2 id of a chain that the vault signs for.',
    )
  const url = urlText === undefined ? undefined : URL.parse(urlText)
  if (url === null) throw new VaultError('VALIDATION_ERROR', 'url: Expected an absolute address.')

  if (typeof maxAmount === 'string' || typeof maxAmount === 'number')
    x.claimed = `Pay at most ${showText(String(maxAmount), 80)}`
  const build = async (only: string | undefined, nowMs = parts.clock.now()): Promise<BuiltPayment> => {
    const result = await buildPayment({
      paymentRequired,
      maxAmount,
      ...(only !== undefined && { network: only as NetworkId }),
      networks: networksFor(x, parts),
      ...(url !== undefined && { url }),
      accountOn: (chain) => keyOn(parts.vault, chain).address,
      plugins: parts.chains,
      rpc: parts.rpc,
      signal: AbortSignal.timeout(BUILD_TIMEOUT_MS),
      nowMs,
      assets: parts.assets,
    })
    if (!result.ok) throw new VaultError(result.code, result.message)
    return result.payment
  }
  const nowMs = parts.clock.now()
  const payment = await build(network, nowMs)
  const { decoded } = payment
  x.found = payment.describe.join(' ')
  // This also refuses a chain that is not enabled.
  const account = accountOn(parts, decoded.chain)
  const { facts, key } = account
  const risk = sharedKeyRisk(account, decoded)
  const moved = decoded.effects.find((effect) => effect.kind === 'transfer')
  if (moved === undefined || !moved.asset.isPinned)
    throw new TypeError('Expected a payment to be one transfer of a pinned asset.')
  const asset = moved.asset as PinnedAsset
  const termsHash = termsHashOf(payment)

  return {
    action: 'SIGN',
    kind: moved.isMost === true ? 'payment_up_to' : 'payment',
    // The effects show the amounts and addresses that are signed. The offer shows what they pay for.
    parts: () => [
      { title: 'Paid for', content: payment.resourceUrl, by: 'seller' },
      ...(payment.description === ''
        ? []
        : [{ title: 'Description', content: payment.description, by: 'seller' } as const]),
      offerPart(paymentRequired),
    ],
    scope: `wallet.${facts.name}`,
    verb: 'sign',
    chain: facts.name,
    amount: formatAmount(payment.amountAtomic, asset.decimals),
    currency: asset.symbol,
    // The recipient is in the chain's canonical spelling, by which the owner and the log recognize it. The offer may have it in
    // lower case.
    recipient: moved.toOwner ?? moved.to,
    plainWords: withoutTimes(payment, moved, nowMs),
    warnings: [...risk.warnings, ...decoded.warnings],
    isOpaque: decoded.isOpaque,
    view: viewOf(decoded),
    requestHash: hashOf(
      'payment',
      termsHash,
      JSON.stringify([paymentRequired, maxAmount, network ?? null, urlText ?? null]),
    ),
    frozenHash: termsHash,
    frozen: null,
    spends: budgetSpends(decoded),
    judged: { decoded, proof: { ok: true, asset, amount: payment.amountAtomic } },
    reasons: risk.reasons,
    // A second request with the same offer is another purchase, unless it has the same Idempotency-Key.
    repeat: 'new',
    act: async (attempt, spendId) => {
      const fresh = x.approval === null ? payment : await build(payment.network)
      if (termsHashOf(fresh) !== (x.approval?.frozenHash ?? termsHash))
        throw new VaultError(
          'APPROVAL_RESOLVED',
          'Expected the payment that was approved, got another payment. Request the payment again.',
        )
      const signature = await parts.vault.signer.sign({
        requestId: attempt,
        keyId: key.keyId,
        kind: fresh.decoded.signKind,
        bytes: fresh.decoded.signingBytes,
      })
      const { paymentHeader } = fresh.assemble(signature.bytes)
      parts.charges.note(spendId, x.caller.id, fresh.claim)
      return { status: 200, body: { payment_header: paymentHeader } }
    },
  }
}

/** Hash of the terms that an approval covers. They are the whole payment without its time and nonce. */
const termsHashOf = (payment: BuiltPayment): string =>
  hashOf(
    'payment terms',
    payment.network,
    payment.payTo,
    String(payment.amountAtomic),
    payment.resourceUrl,
    payment.decoded.from,
    ...budgetSpends(payment.decoded).flatMap(({ asset, amount, recipient = null }) => [
      asset,
      String(amount),
      recipient,
    ]),
    ...payment.decoded.effects.flatMap((effect) =>
      effect.kind === 'transfer' && effect.submitter !== undefined
        ? [effect.isMost === true ? 'at most' : 'exactly', effect.submitter]
        : [],
    ),
  )

/**
 * Removes the times from the effects' sentences, because each build has other times, and the same terms must give the same
 * sentences.
 */
function withoutTimes(
  payment: BuiltPayment,
  moved: Extract<Effect, { kind: 'transfer' }>,
  nowMs: number,
): readonly string[] {
  const times = timeWords(moved)
  const { submitter, validBefore = 0n } = moved
  const seconds = Number(validBefore) - Math.floor(nowMs / 1_000)
  const stable =
    submitter === undefined
      ? ', submitted by the seller before its offer expires'
      : `, submitted by ${submitter} within ${seconds} seconds after the vault signs it`
  return payment.describe.map((text) => (times === '' ? text : text.replace(times, stable)))
}
