import { formatAmount } from '../../../core/domain/money.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import { parseStrictJson } from '../../../core/x402/strictJson.ts'
import { grantFor } from '../../agents/grant.ts'
import type { PartDraft } from '../../approvals/shownPart.ts'
import type { PinnedAsset } from '../../effects/assets.ts'
import { budgetSpends } from '../../effects/budgetSpends.ts'
import { type BuiltPayment, buildPayment } from '../../effects/buildPayment.ts'
import type { Effect } from '../../effects/effect.ts'
import { showText, timeWords } from '../../effects/plainWords.ts'
import { VaultError } from '../../errors/error.ts'
import { paymentRequest } from '../../requests/agentRequests.ts'
import { objectIn } from '../../requests/request.ts'
import { accountOn, keyOn, sharedKeyRisk } from '../chainOf.ts'
import { hashOf } from '../hashOf.ts'
import type { VaultParts } from '../parts.ts'
import type { Plan } from '../plan.ts'
import type { VaultCall } from '../vaultCall.ts'
import { viewOf } from '../viewOf.ts'

/** How long a chain's node may take to be asked for a block. */
const BUILD_TIMEOUT_MS = 20_000

/**
 * `POST /v1/vault/sign-payment` `{payment_required, max_amount, network?, url?, agent_name}` → `{payment_header}`.
 *
 * What is approved are the offer's terms: who gets how much of what for which address. The payment is built of them by the
 * vault when it is signed, because its bytes hold a time that may be over when the owner answers.
 */
export async function planPayment(x: VaultCall, parts: VaultParts): Promise<Plan> {
  const input = paymentRequest.check(x.input)
  const { payment_required: given, max_amount: maxAmount, network, url: urlText } = input
  // The header as it came is base64, and no JSON.
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
  const build = async (only: string | undefined): Promise<BuiltPayment> => {
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
      nowMs: parts.clock.now(),
      assets: parts.assets,
    })
    if (!result.ok) throw new VaultError(result.code, result.message)
    return result.payment
  }
  const payment = await build(network)
  const { decoded } = payment
  x.found = payment.describe.join(' ')
  // Also refuses a chain that is not enabled.
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
    kind: 'payment',
    // What is signed are the amounts and addresses of the effects; the offer is what it is for.
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
    // In the chain's one spelling, by which the owner and the log know it again; a seller may write its address in lower case.
    recipient: moved.toOwner ?? moved.to,
    plainWords: withoutTimes(payment, moved),
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
    // The same offer again is another purchase, unless an Idempotency-Key says that it is not.
    repeat: 'new',
    act: async (attempt) => {
      const fresh = x.approval === null ? payment : await build(payment.network)
      if (termsHashOf(fresh) !== (x.approval?.frozenHash ?? termsHash))
        throw new VaultError('APPROVAL_RESOLVED', 'The payment is not the one that was approved.')
      const signature = await parts.vault.signer.sign({
        requestId: attempt,
        keyId: key.keyId,
        kind: fresh.decoded.signKind,
        bytes: fresh.decoded.signingBytes,
      })
      return { status: 200, body: { payment_header: fresh.assemble(signature.bytes).paymentHeader } }
    },
  }
}

/** Where this agent may pay: the chains that are enabled, and granted to it. */
function networksFor({ who }: VaultCall, { enabled, assets }: VaultParts): ReadonlySet<string> {
  const open = enabled.filter(
    (name) => who.kind !== 'agent' || grantFor(who.agent.grants, 'sign', `wallet.${name}`) !== undefined,
  )
  return new Set(open.map((name) => assets.chains.of(name).network))
}

/** The terms that an approval is for: everything of a payment but its time and its nonce. */
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
  )

/** The same words for the same terms: those of the effects hold a time, which is another with every building. */
function withoutTimes(
  payment: BuiltPayment,
  moved: Extract<Effect, { kind: 'transfer' }>,
): readonly string[] {
  const times = timeWords(moved)
  return payment.describe.map((text) =>
    times === '' ? text : text.replace(times, ', by the seller within the time of its offer'),
  )
}

/** The offer laid out for reading; as the agent sent it where that is a header's base64, size and hash are of that. */
function offerPart(offer: unknown): PartDraft {
  const content = typeof offer === 'string' ? offer : JSON.stringify(offer)
  const read = parseStrictJson(
    typeof offer === 'string' ? Buffer.from(offer, 'base64').toString('utf8') : content,
  )
  const part = { title: 'Offer', content, by: 'seller', isRaw: true } as const
  return read.ok ? { ...part, shownAs: JSON.stringify(read.value, null, 2), format: 'json' } : part
}
