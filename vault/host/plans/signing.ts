import { formatAmount } from '../../../core/domain/money.ts'
import { visibleText } from '../../../core/text/visibleText.ts'
import { parseStrictJson } from '../../../core/x402/strictJson.ts'
import type { PartDraft } from '../../approvals/shownPart.ts'
import type { AssetTable, PinnedAsset } from '../../effects/assets.ts'
import {
  type AllowanceEffect,
  budgetSpends,
  type Decoded,
  type DecodeResult,
  type TransferEffect,
} from '../../effects/effect.ts'
import { countOf, nameRecipients, plainWords, showText } from '../../effects/plainWords.ts'
import { type ClaimProof, plainAmount, proveClaim } from '../../effects/proveClaim.ts'
import { VaultError } from '../../errors/error.ts'
import type { AuditAction } from '../../ports/audit.ts'
import {
  type previewRequest,
  signMessageRequest,
  signRequest,
  signTypedDataRequest,
} from '../../requests/agentRequests.ts'
import type { InputOf } from '../../requests/request.ts'
import { accountOn, type ChainAccount, sharedKeyRisk } from '../chainOf.ts'
import type { VaultDeps } from '../deps.ts'
import { hashOf, type Plan, type VaultCall, viewOf } from '../vaultCall.ts'
import { readSignIn, signInWarnings, signInWords } from './signIn.ts'

/** The agent's claim about the bytes. */
interface Claimed {
  readonly amount: string | number | undefined
  readonly currency: string | undefined
  readonly recipient: string | undefined
}

/** A signing request. In a preview the claim may be absent, because a preview reports what the bytes do. */
type Asked = InputOf<typeof previewRequest>

const claimOf = ({ amount, currency, recipient }: Omit<Asked, 'chain'>): Claimed => ({
  amount,
  currency,
  recipient,
})

/** `POST /v1/vault/sign` `{chain, agent_name, amount, currency, unsigned_tx}` → `{signed_tx, signature}`. */
export function planTransaction(
  x: VaultCall,
  parts: VaultDeps,
  input: Asked = signRequest.check(x.input),
): Plan {
  x.claimed = claimWords(input.chain, claimOf(input))
  const account = accountOn(parts, input.chain)
  const decoded = assertDecoded(
    account.plugin.decodeTransaction({
      chain: account.facts.name,
      account: account.key.address,
      unsignedTx: input.unsigned_tx,
      assets: parts.assets,
    }),
  )
  return signingPlan({ x, parts, account, decoded, claim: claimOf(input), action: 'SIGN' })
}

/** `POST /v1/vault/sign-typed-data` `{chain, agent_name, typed_data, amount?, currency?, recipient?}` → `{signature}`. */
export function planTypedData(
  x: VaultCall,
  parts: VaultDeps,
  input: Asked = signTypedDataRequest.check(x.input),
): Plan {
  x.claimed = claimWords(input.chain, claimOf(input))
  const account = accountOn(parts, input.chain)
  if (account.plugin.decodeTypedData === undefined)
    throw new VaultError('VALIDATION_ERROR', 'chain: Expected a chain with typed data, such as base.')
  const decoded = assertDecoded(
    account.plugin.decodeTypedData({
      chain: account.facts.name,
      account: account.key.address,
      typedData: input.typed_data,
      assets: parts.assets,
    }),
  )
  const plan = signingPlan({ x, parts, account, decoded, claim: claimOf(input), action: 'SIGN_TYPED_DATA' })
  return {
    ...plan,
    // Notes are left out of the words, because the parts below contain all fields in order.
    plainWords: plainWords(
      { ...decoded, effects: decoded.effects.filter(({ kind }) => kind !== 'note') },
      parts.assets,
    ),
    kind: kindOf(decoded) === 'allowance' ? 'allowance' : decoded.isOpaque ? 'typed_data' : kindOf(decoded),
    parts: () => typedDataParts(input.typed_data),
  }
}

/** `POST /v1/vault/sign-message` `{chain, agent_name, message, encoding?}` → `{signature}`. */
export function planMessage(
  x: VaultCall,
  parts: VaultDeps,
  input: InputOf<typeof signMessageRequest> = signMessageRequest.check(x.input),
): Plan {
  const { message, encoding = 'utf8' } = input
  const account = accountOn(parts, input.chain)
  const decoded = assertDecoded(
    account.plugin.decodeMessage({
      chain: account.facts.name,
      account: account.key.address,
      message,
      encoding,
      assets: parts.assets,
    }),
  )
  const plan = signingPlan({ x, parts, account, decoded, claim: claimOf({}), action: 'SIGN_MESSAGE' })
  const effect = decoded.effects[0]
  const shown = {
    ...plan,
    ...(effect?.kind === 'note' && { plainWords: [messageWords(effect.text, account.facts.title)] }),
    parts: () => [messagePart(decoded)],
  }
  const signIn = effect?.kind === 'note' ? readSignIn(effect.text) : undefined
  if (signIn === undefined) return { ...shown, kind: 'message' }
  const context = { address: decoded.from, facts: account.facts, nowMs: parts.clock.now() }
  return {
    ...shown,
    kind: signIn.isWellFormed ? 'sign_in' : 'message',
    plainWords: [signInWords(signIn, account.facts), ...shown.plainWords],
    warnings: [...plan.warnings, ...signInWarnings(signIn, context)],
  }
}

/** A message in one sentence. Its full text is a separate part. */
const messageWords = (text: string, chainTitle: string): string =>
  `Sign a text of ${countOf(text)} (${chainTitle}).`

/** The agent's claim for the log, in the agent's own words. */
function claimWords(chain: string, { amount, currency, recipient }: Claimed): string | null {
  if (amount === undefined) return null
  const isPlain = typeof amount === 'number' || /^[\d.]{1,80}$/.test(String(amount))
  const sum = isPlain ? String(amount) : showText(typeof amount === 'string' ? amount : typeof amount, 40)
  const to = recipient === undefined ? '' : ` to ${showText(recipient, 128)}`
  return `Move ${sum} ${currency === undefined ? 'of the native currency' : showText(currency, 64)}${to} on ${showText(chain, 64)}`
}

/** Returns the decoded request. @throws the problem that the chain's plugin found in the bytes */
function assertDecoded(result: DecodeResult): Decoded {
  if (result.ok) return result.decoded
  throw new VaultError(result.code, result.message)
}

interface SigningPlanInit {
  readonly x: VaultCall
  readonly parts: VaultDeps
  readonly account: ChainAccount
  readonly decoded: Decoded
  readonly claim: Claimed
  readonly action: AuditAction
}

/** A plan to sign what was decoded. @throws the refusal of a false claim, before any rule is applied */
function signingPlan(init: SigningPlanInit): Plan {
  const { x, parts, account, claim, action } = init
  const decoded = nameRecipients(init.decoded, knownWallets(init), parts.assets)
  x.found = decoded.plainWords.join(' ')
  const proof = proofOf(account.facts.name, claim, decoded, parts)
  if (proof !== null && !proof.ok && !proof.mayBeShown) throw new VaultError(proof.code, proof.message)
  const claimed = [claim.amount ?? null, claim.currency ?? null, claim.recipient ?? null]
  const frozenHash = hashOf(
    decoded.kind,
    decoded.chain,
    decoded.from,
    decoded.frozenBytes,
    decoded.signingBytes,
  )
  const moved = decoded.effects.find((effect) => effect.kind === 'transfer' || effect.kind === 'allowance')
  const risk = sharedKeyRisk(account, decoded)
  return {
    action,
    kind: kindOf(decoded),
    parts: () => transactionParts(decoded),
    scope: `wallet.${account.facts.name}`,
    verb: 'sign',
    chain: account.facts.name,
    ...sumOf(claim, decoded, parts.assets),
    recipient:
      moved?.kind === 'transfer'
        ? (moved.toOwner ?? moved.to)
        : moved?.kind === 'allowance'
          ? moved.spender
          : null,
    plainWords: decoded.plainWords,
    warnings: [...risk.warnings, ...decoded.warnings],
    isOpaque: decoded.isOpaque,
    view: viewOf(decoded),
    // The stored response has the encoding that the request names.
    requestHash: hashOf(action, frozenHash, ...claimed, ...(decoded.encoding === 'json' ? ['json'] : [])),
    frozenHash,
    frozen: null,
    spends: budgetSpends(decoded),
    reasons: risk.reasons,
    judged: { decoded, proof },
    repeat: 'same',
    act: async (attempt) => {
      // The approval, the budget and the log refer to these bytes, so the vault signs no others.
      const now = hashOf(decoded.kind, decoded.chain, decoded.from, decoded.frozenBytes, decoded.signingBytes)
      if (now !== (x.approval?.frozenHash ?? frozenHash))
        throw new VaultError(
          'APPROVAL_RESOLVED',
          'Expected the bytes that were approved, got other bytes. Send the request again.',
        )
      const signature = await parts.vault.signer.sign({
        requestId: attempt,
        keyId: account.key.keyId,
        kind: decoded.signKind,
        bytes: decoded.signingBytes,
      })
      const signed = account.plugin.assemble(decoded, signature.bytes)
      return { status: 200, body: documentResponse(signed) }
    },
  }
}

/**
 * The amount that the agent claims. Without a claim, it is the amount that the bytes move, if they move only one and everything
 * was decoded.
 */
function sumOf(claim: Claimed, { chain, effects, isOpaque }: Decoded, assets: AssetTable) {
  if (claim.amount !== undefined)
    return {
      amount: plainAmount(claim.amount),
      currency: claim.currency ?? assets.native(chain).symbol,
    }
  const [moved, ...others] = effects.filter(({ kind }) => kind === 'transfer' || kind === 'allowance')
  const sum = moved as TransferEffect | AllowanceEffect | undefined
  if (isOpaque || others.length > 0 || sum?.asset.isPinned !== true) return { amount: null, currency: null }
  const { symbol, decimals } = sum.asset as PinnedAsset
  return { amount: formatAmount(sum.amount, decimals), currency: symbol }
}

/**
 * The kind of the transaction. If it has an allowance, it counts as an allowance. If a part was not decoded, it never counts as
 * a transfer.
 */
function kindOf({ effects, isOpaque }: Decoded): 'allowance' | 'transfer' | 'transaction' {
  if (effects.some(({ kind }) => kind === 'allowance')) return 'allowance'
  return !isOpaque && effects.some(({ kind }) => kind === 'transfer') ? 'transfer' : 'transaction'
}

/** Parts with texts that are too long for a sentence. If something was not decoded, they include the bytes. */
function transactionParts({ effects, isOpaque, encoding, frozenBytes }: Decoded): PartDraft[] {
  const texts = effects.flatMap((effect) => (effect.kind === 'note' ? [effect.text] : []))
  const notes = texts.map((content, i) => ({ title: texts.length === 1 ? 'Text' : `Text ${i + 1}`, content }))
  if (!isOpaque) return notes
  const base64 = Buffer.from(frozenBytes).toString('base64')
  return [
    ...notes,
    {
      title: 'Transaction',
      content: frozenBytes,
      ...(encoding === 'base64' && { format: 'text', shownAs: base64 }),
    },
  ]
}

const messagePart = ({ effects: [effect], frozenBytes }: Decoded): PartDraft => ({
  title: 'Message',
  content: effect?.kind === 'note' ? effect.text : frozenBytes,
})

/** Addresses that the owner would recognize, which are those in the rules and the one that the agent claims. */
function knownWallets({ x, parts, claim }: SigningPlanInit): readonly string[] {
  const named = x.who.kind === 'agent' ? parts.rules.walletsOf(x.who.agent) : []
  return claim.recipient === undefined ? named : [...named, claim.recipient]
}

const documentResponse = ({ signedTx, signature }: { signedTx: string | null; signature: string }) =>
  signedTx === null ? { signature } : { signed_tx: signedTx, signature }

const LONGEST_PURPOSE = 500

/** The purpose that the agent stated, for display. The agent may state it in either of two fields or in both. */
export const purposeOf = ({ input }: VaultCall): string | null => {
  const texts = [input['purpose'], input['description']].filter((text) => typeof text === 'string')
  const purpose = texts.join(' ').trim()
  if (purpose === '') return null
  // Right-to-left characters may stay, because the purpose is shown in a block of its own.
  return visibleText(purpose.length > LONGEST_PURPOSE ? `${purpose.slice(0, LONGEST_PURPOSE)}…` : purpose)
}

function proofOf(chain: string, claim: Claimed, decoded: Decoded, { assets }: VaultDeps): ClaimProof | null {
  const { amount, currency, recipient } = claim
  if (amount === undefined) return null
  const proved = {
    chain,
    amount,
    ...(currency !== undefined && { currency }),
    ...(recipient !== undefined && { recipient }),
  }
  return proveClaim(proved, decoded, { assets })
}

type Json = Readonly<Record<string, unknown>>
type Types = Readonly<Record<string, readonly { readonly name: string; readonly type: string }[]>>

/** EIP-712, "Definition of domainSeparator": the order in which the fields of a domain are hashed. */
const domainOrder = ['name', 'version', 'chainId', 'verifyingContract', 'salt']

/**
 * Decoded typed data, shown in full: domain, message and types. Each object has the field order of its type, which is the order
 * that is hashed. A member that is not in the type comes last and is marked.
 *
 * @param typedData as in the request, text or object
 */
function typedDataParts(typedData: unknown): PartDraft[] {
  const parsed = typeof typedData === 'string' ? parseStrictJson(typedData) : undefined
  const { domain, types, primaryType, message } = (
    parsed === undefined ? typedData : parsed.ok ? parsed.value : {}
  ) as { domain: Json; types: Types; primaryType: string; message: Json }
  const { EIP712Domain: _, ...own } = types
  return [
    jsonPart('Domain', ordered(domain, domainOrder)),
    jsonPart('Message', inOrder(message, primaryType, own)),
    jsonPart('Types', { primaryType, types: own }),
  ]
}

function inOrder(value: unknown, type: string, types: Types): unknown {
  if (Array.isArray(value)) {
    const of = type.replace(/\[\d*\]$/, '')
    return value.map((item) => inOrder(item, of, types))
  }
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.hasOwn(types, type) ? types[type]! : []
  const typeOf = new Map(fields.map((field) => [field.name, field.type]))
  const inner = Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, inOrder(item, typeOf.get(name) ?? '', types)]),
  )
  return ordered(inner, [...typeOf.keys()])
}

function ordered(value: Json, names: readonly string[]): Json {
  const named = names.filter((name) => Object.hasOwn(value, name)).map((name) => [name, value[name]])
  const others = Object.keys(value)
    .filter((name) => !names.includes(name))
    .map((name) => [`${name} (not in the type: not signed)`, value[name]])
  return Object.fromEntries([...named, ...others])
}

/** JSON formatted for reading. Size and hash are those of the same JSON without spaces. */
const jsonPart = (title: string, value: unknown): PartDraft => ({
  title,
  content: JSON.stringify(value),
  shownAs: JSON.stringify(value, null, 2),
  format: 'json',
})
