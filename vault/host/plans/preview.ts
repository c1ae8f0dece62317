import { amountWords } from '../../effects/plainWords.ts'
import { isVaultError, VaultError } from '../../errors/error.ts'
import { previewRequest } from '../../requests/agentRequests.ts'
import type { InputOf } from '../../requests/request.ts'
import { accountOn } from '../chainOf.ts'
import type { VaultDeps } from '../deps.ts'
import { budgetError } from '../phases/perform.ts'
import { hashOf, type Plan, type VaultCall, withoutMoney } from '../vaultCall.ts'
import { planMessage, planTransaction, planTypedData } from './signing.ts'

/** Statuses of refusals that a preview returns as its result, because a signing request would get the same refusal. */
const refusals = new Set([403, 422])

/**
 * `POST /v1/vault/preview`, with the fields of sign, sign-typed-data or sign-message → what the bytes do and what the rules
 * would decide. Nothing is signed, reserved, logged or submitted for approval.
 */
export function planPreview(x: VaultCall, parts: VaultDeps): Plan {
  const input = previewRequest.check(x.input)
  const { facts } = accountOn(parts, input.chain)
  return {
    ...withoutMoney,
    action: 'SIGN',
    scope: `wallet.${facts.name}`,
    verb: 'sign',
    chain: facts.name,
    plainWords: [],
    requestHash: hashOf('preview'),
    frozenHash: hashOf('preview'),
    repeat: 'new',
    act: async () => ({ status: 200, body: preview(x, parts, input) }),
  }
}

type Input = InputOf<typeof previewRequest>

function preview(x: VaultCall, parts: VaultDeps, input: Input): Record<string, unknown> {
  try {
    return shown(x, parts, input)
  } catch (error) {
    if (!isVaultError(error) || !refusals.has(error.status)) throw error
    return {
      verdict: 'refuse',
      code: error.code,
      reasons: [error.message],
      effects: [],
      warnings: [],
      opaque: true,
    }
  }
}

function shown(x: VaultCall, parts: VaultDeps, input: Input): Record<string, unknown> {
  const plan = planOf(x, parts, input)
  const { decoded, proof } = plan.judged!
  const facts = {
    chain: decoded.chain,
    from: decoded.from,
    effects: plan.plainWords,
    warnings: plan.warnings,
    opaque: plan.isOpaque,
    fee: amountWords(decoded.fee.asset, decoded.fee.amount),
    claim_proved: proof === null ? null : proof.ok,
  }
  if (x.who.kind !== 'agent') return { verdict: 'ask', reasons: [], ...facts }
  const judgement = parts.rules.judge({ agent: x.who.agent, decoded, proof })
  const base = { reasons: judgement.reasons, ...facts }
  if (judgement.outcome === 'refuse') {
    const { reasons, action } = judgement
    return {
      verdict: 'refuse',
      code: judgement.code,
      ...base,
      reasons: action === undefined ? reasons : [...reasons, action],
    }
  }
  const room = parts.vault.budget.check({
    id: x.requestId,
    agentId: x.caller.id,
    spends: plan.spends,
    limits: judgement.limits,
  })
  if (!room.ok)
    return { verdict: 'refuse', code: room.code, ...base, reasons: [budgetError(room, decoded).message] }
  const asks = [...x.reasons, ...plan.reasons, ...judgement.reasons]
  return {
    verdict: asks.length === 0 && judgement.outcome === 'auto' ? 'auto' : 'ask',
    ...base,
    reasons: asks,
  }
}

function planOf(x: VaultCall, parts: VaultDeps, input: Input): Plan {
  const { chain, unsigned_tx: transaction, typed_data: typedData, message, encoding } = input
  if ([transaction, typedData, message].filter((one) => one !== undefined).length !== 1)
    throw new VaultError('VALIDATION_ERROR', 'Expected exactly one of unsigned_tx, typed_data and message.')
  if (transaction !== undefined) return planTransaction(x, parts, input)
  if (typedData !== undefined) return planTypedData(x, parts, input)
  return planMessage(x, parts, { chain, message: message!, ...(encoding && { encoding }) })
}
