import { formatAmount } from '../../../core/domain/money.ts'
import type { DepositAuthorization } from '../../../core/x402/channelPayment.ts'
import type { ApprovalRecord } from '../../approvals/approval.ts'
import { VaultError } from '../../errors/error.ts'
import type { VaultDeps } from '../deps.ts'
import { hashOf, type Plan, type VaultCall } from '../vaultCall.ts'
import {
  type ChannelRequest,
  type OpenedChannel,
  readChannelRequest,
  type StoredDeposit,
} from './channelRequest.ts'
import { planDeposit } from './deposit.ts'

/**
 * `POST /v1/vault/sign-payment` with `voucher_total`, and with `deposit` for a deposit → `{payment_header}`.
 *
 * A deposit is judged and counted like a payment to the channel's receiver. A voucher of a channel whose deposit this agent got is
 * signed without asking, up to the deposits, which the budget has counted in full.
 */
export function planChannel(x: VaultCall, parts: VaultDeps): Plan {
  const request = readChannelRequest(x, parts)
  const { known, asked, total, nowSeconds } = request
  const { records } = parts.vault
  const open = known === undefined ? null : depositOf(known.deposit)
  const isOpen = (one: DepositAuthorization) => one.validBefore > BigInt(nowSeconds())
  // A stored deposit leaves the vault once its approval is consumed. If the approval expires instead, its money is released.
  const hasLeft = ({ approvalId }: OpenedChannel) =>
    approvalId === null || records.getJson<ApprovalRecord>('approval', approvalId)?.state === 'consumed'
  const isSame =
    open !== null &&
    isOpen(open) &&
    open.amount === asked &&
    String(total) === known!.deposit.total &&
    hasLeft(known!)

  if (asked === null) return planVoucher(x, request, null)
  return isSame ? planVoucher(x, request, open) : planDeposit(x, parts, request, asked)
}

/** @param open the stored deposit that is returned again with the voucher */
function planVoucher(x: VaultCall, request: ChannelRequest, open: DepositAuthorization | null): Plan {
  const { known, total, asked, units, receiver, id, terms } = request
  if (known === undefined)
    throw new VaultError(
      'SCOPE_DENIED',
      'Expected a channel whose deposit the vault has signed, got another one. Send deposit first.',
    )
  if (total > BigInt(known.deposited))
    throw new VaultError(
      'BUDGET_EXCEEDED_TX',
      `Expected a voucher of at most ${units(BigInt(known.deposited))}, which the deposits allow, got ${units(total)}.`,
    )
  const words = `Sign a voucher over a total of ${units(total)} of the payment channel to ${receiver}.`
  x.found = words
  const hash = hashOf('channel voucher', id, String(total), asked === null ? null : String(asked))
  return {
    ...request.common,
    kind: 'payment',
    amount: formatAmount(total, terms.asset.decimals),
    plainWords: [words],
    warnings: [],
    view: null,
    requestHash: hash,
    frozenHash: hash,
    spends: [],
    reasons: [],
    act: (attempt) => request.signVoucher(attempt, open),
  }
}

const depositOf = ({ amount, validAfter, validBefore, salt, signature }: StoredDeposit) => ({
  amount: BigInt(amount),
  validAfter: BigInt(validAfter),
  validBefore: BigInt(validBefore),
  salt: BigInt(salt),
  signature,
})
