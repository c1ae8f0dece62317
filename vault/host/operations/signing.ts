import { visibleText } from '../../../core/text/visibleText.ts'
import type { PartDraft } from '../../approvals/shownPart.ts'
import { budgetSpends } from '../../effects/budgetSpends.ts'
import { plainAmount } from '../../effects/claimedAmount.ts'
import type { Decoded, DecodeResult } from '../../effects/decoded.ts'
import { nameRecipients } from '../../effects/goesTo.ts'
import { countOf, plainWords, showText } from '../../effects/plainWords.ts'
import { type ClaimProof, proveClaim } from '../../effects/proveClaim.ts'
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
import { hashOf } from '../hashOf.ts'
import type { VaultParts } from '../parts.ts'
import type { Plan } from '../plan.ts'
import type { VaultCall } from '../vaultCall.ts'
import { viewOf } from '../viewOf.ts'
import { readSignIn, signInWarnings, signInWords } from './signIn.ts'
import { typedDataParts } from './typedDataParts.ts'

/** What an agent says beside the bytes. */
interface Claimed {
  readonly amount: string | number | undefined
  readonly currency: string | undefined
  readonly recipient: string | undefined
}

/** A signing request; a preview may leave the claim out, for it is about what the bytes do. */
type Asked = InputOf<typeof previewRequest>

const claimOf = ({ amount, currency, recipient }: Omit<Asked, 'chain'>): Claimed => ({
  amount,
  currency,
  recipient,
})

/** `POST /v1/vault/sign` `{chain, agent_name, amount, currency, unsigned_tx}` → `{signed_tx, signature}`. */
export function planTransaction(
  x: VaultCall,
  parts: VaultParts,
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
  parts: VaultParts,
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
    // Its fields are the parts below, whole and in their order; as sentences they would only be some of them.
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
  parts: VaultParts,
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
  const said = decoded.effects[0]
  const shown = {
    ...plan,
    ...(said?.kind === 'note' && { plainWords: [messageWords(said.text, account.facts.title)] }),
    parts: () => [messagePart(decoded)],
  }
  const signIn = said?.kind === 'note' ? readSignIn(said.text) : undefined
  if (signIn === undefined) return { ...shown, kind: 'message' }
  const context = { address: decoded.from, facts: account.facts, nowMs: parts.clock.now() }
  return {
    ...shown,
    kind: signIn.isWellFormed ? 'sign_in' : 'message',
    plainWords: [signInWords(signIn, account.facts), ...shown.plainWords],
    warnings: [...plan.warnings, ...signInWarnings(signIn, context)],
  }
}

/** A message in one sentence; it stands whole in a part of its own. */
const messageWords = (text: string, chainTitle: string): string =>
  `Sign a text of ${countOf(text)} (${chainTitle}).`

/** What the agent says, for the log: every word of it is the agent's own. */
function claimWords(chain: string, { amount, currency, recipient }: Claimed): string | null {
  if (amount === undefined) return null
  const isPlain = typeof amount === 'number' || /^[\d.]{1,80}$/.test(String(amount))
  const sum = isPlain ? String(amount) : showText(typeof amount === 'string' ? amount : typeof amount, 40)
  const to = recipient === undefined ? '' : ` to ${showText(recipient, 128)}`
  return `Move ${sum} ${currency === undefined ? 'of the native currency' : showText(currency, 64)}${to} on ${showText(chain, 64)}`
}

/** @throws what the chain's plugin says is wrong with the bytes */
function assertDecoded(result: DecodeResult): Decoded {
  if (result.ok) return result.decoded
  throw new VaultError(result.code, result.message)
}

interface SigningPlanInit {
  readonly x: VaultCall
  readonly parts: VaultParts
  readonly account: ChainAccount
  readonly decoded: Decoded
  readonly claim: Claimed
  readonly action: AuditAction
}

/** A plan to sign what was decoded. @throws what a wrong claim is refused with, before any rule is asked */
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
    amount: claim.amount === undefined ? null : plainAmount(claim.amount),
    currency:
      claim.amount === undefined ? null : (claim.currency ?? parts.assets.native(decoded.chain).symbol),
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
    // The answer that is kept for it is in the encoding of the request.
    requestHash: hashOf(action, frozenHash, ...claimed, ...(decoded.encoding === 'json' ? ['json'] : [])),
    frozenHash,
    frozen: null,
    spends: budgetSpends(decoded),
    reasons: risk.reasons,
    judged: { decoded, proof },
    repeat: 'same',
    act: async (attempt) => {
      // The approval, the budget and the log speak about these bytes, and no others are signed.
      const now = hashOf(decoded.kind, decoded.chain, decoded.from, decoded.frozenBytes, decoded.signingBytes)
      if (now !== (x.approval?.frozenHash ?? frozenHash))
        throw new VaultError('APPROVAL_RESOLVED', 'The bytes are not those that were approved.')
      const signature = await parts.vault.signer.sign({
        requestId: attempt,
        keyId: account.key.keyId,
        kind: decoded.signKind,
        bytes: decoded.signingBytes,
      })
      const signed = account.plugin.assemble(decoded, signature.bytes)
      return { status: 200, body: documentAnswer(signed) }
    },
  }
}

/** A right to take later is named before everything else; what is not understood is no transfer. */
function kindOf({ effects, isOpaque }: Decoded): 'allowance' | 'transfer' | 'transaction' {
  if (effects.some(({ kind }) => kind === 'allowance')) return 'allowance'
  return !isOpaque && effects.some(({ kind }) => kind === 'transfer') ? 'transfer' : 'transaction'
}

/** Texts that are too long for a sentence; and, where anything is not understood, the bytes themselves. */
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

const messagePart = ({ effects: [said], frozenBytes }: Decoded): PartDraft => ({
  title: 'Message',
  content: said?.kind === 'note' ? said.text : frozenBytes,
})

/** Wallets that the owner would know again: those that the rules name, and the one that the agent claims. */
function knownWallets({ x, parts, claim }: SigningPlanInit): readonly string[] {
  const named = x.who.kind === 'agent' ? parts.rules.walletsOf(x.who.agent) : []
  return claim.recipient === undefined ? named : [...named, claim.recipient]
}

const documentAnswer = ({ signedTx, signature }: { signedTx: string | null; signature: string }) =>
  signedTx === null ? { signature } : { signed_tx: signedTx, signature }

const LONGEST_PURPOSE = 500

/** The agent's own words about why, for showing; under either of their names, or both. */
export const purposeOf = ({ input }: VaultCall): string | null => {
  const said = [input['purpose'], input['description']].filter((text) => typeof text === 'string')
  const purpose = said.join(' ').trim()
  if (purpose === '') return null
  // It stands by itself, so a script may run as it does.
  return visibleText(purpose.length > LONGEST_PURPOSE ? `${purpose.slice(0, LONGEST_PURPOSE)}…` : purpose)
}

function proofOf(chain: string, claim: Claimed, decoded: Decoded, { assets }: VaultParts): ClaimProof | null {
  const { amount, currency, recipient } = claim
  if (amount === undefined) return null
  const said = {
    chain,
    amount,
    ...(currency !== undefined && { currency }),
    ...(recipient !== undefined && { recipient }),
  }
  return proveClaim(said, decoded, { assets })
}
