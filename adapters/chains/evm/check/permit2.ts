import { addressForm, keccak256 } from '../../../../core/evm/hex.ts'
import { permit2Address, permit2Proxies } from '../../../../core/evm/permit2.ts'
import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../../core/x402/types.ts'
import { refuse, refuseUnread } from '../../refusals.ts'
import { reasons } from '../reasons.ts'
import { judgeAllowancePermit, withAllowancePermit } from './allowancePermit.ts'
import {
  type Authorization,
  type AuthorizationRead,
  CLOCK_SLACK_SECONDS,
  MIN_LEAD_SECONDS,
  own,
  type Permit2Part,
  read,
  readSignature,
  typedDataDigest,
  uintForm,
  writeUint,
} from './authorization.ts'

/**
 * Reads an x402 payment by Permit2, with the permit that may accompany it. The function ignores inherited properties, accepts one
 * spelling of each number and never throws.
 */
export const readPermit2 = ({
  payload,
  scheme,
  allowancePermit,
}: Pick<PaymentPayload, 'payload' | 'scheme' | 'allowancePermit'>): AuthorizationRead =>
  withAllowancePermit(readPayload(payload, scheme === 'upto'), allowancePermit)

function readPayload(payload: unknown, isUpto: boolean): AuthorizationRead {
  const fields = own(payload, 'permit2Authorization')
  if (typeof fields !== 'object' || fields === null) {
    return own(payload, 'authorization') === undefined
      ? refuseUnread(reasons.payload, 'Expected payload.permit2Authorization to be an object.')
      : refuse(
          reasons.payloadType,
          'Expected an authorization of Permit2, because this link does not accept EIP-3009 for this token.',
        )
  }
  const permitted = own(fields, 'permitted')
  const witness = own(fields, 'witness')
  if (
    typeof permitted !== 'object' ||
    permitted === null ||
    typeof witness !== 'object' ||
    witness === null
  ) {
    return refuseUnread(
      reasons.payload,
      'Expected permit2Authorization.permitted and permit2Authorization.witness to be objects.',
    )
  }
  const from = read(fields, 'from', addressForm)
  const spender = read(fields, 'spender', addressForm)
  const token = read(permitted, 'token', addressForm)
  const to = read(witness, 'to', addressForm)
  const facilitator = isUpto ? read(witness, 'facilitator', addressForm) : null
  if (
    from === undefined ||
    spender === undefined ||
    token === undefined ||
    to === undefined ||
    facilitator === undefined
  ) {
    return refuseUnread(
      reasons.payload,
      'Expected permit2Authorization.from, .spender, .permitted.token, .witness.to and, in the scheme "upto", .witness.facilitator to be addresses of 0x and 40 hex digits.',
    )
  }
  const value = read(permitted, 'amount', uintForm)
  const nonce = read(fields, 'nonce', uintForm)
  const validBefore = read(fields, 'deadline', uintForm)
  const validAfter = read(witness, 'validAfter', uintForm)
  if (
    value === undefined ||
    nonce === undefined ||
    validBefore === undefined ||
    validAfter === undefined ||
    BigInt(nonce) >= 2n ** 256n
  ) {
    return refuseUnread(
      reasons.payload,
      'Expected permit2Authorization.permitted.amount, .nonce, .deadline and .witness.validAfter to be strings of decimal digits without leading zeros, of at most 256 bits.',
    )
  }
  const signature = readSignature(payload)
  if (typeof signature !== 'string') return signature
  return {
    ok: true,
    authorization: {
      from: from.toLowerCase(),
      to: to.toLowerCase(),
      value,
      validAfter,
      validBefore,
      nonce,
      signature,
      permit2: {
        token: token.toLowerCase(),
        spender: spender.toLowerCase(),
        facilitator: facilitator?.toLowerCase() ?? null,
      },
    },
  }
}

/** Refuses a permit that is for another contract, token or scheme, so that it is no payment of this gateway at all. */
export function strangePermit(
  { spender, token }: Permit2Part,
  { scheme, asset }: PaymentRequirements,
): Refusal | undefined {
  const proxy = permit2Proxies[scheme === 'upto' ? 'upto' : 'exact']
  if (spender !== proxy) return refuse(reasons.permit2Spender, `Expected the spender ${proxy}.`)
  if (token !== asset.toLowerCase()) return refuse(reasons.permit2Token, `Expected the token ${asset}.`)
}

/** @param facilitators addresses that may settle a payment by `upto`, in lower case */
export function judgePermit2Terms(
  terms: PaymentRequirements,
  { to, value, validBefore, validAfter, permit2 }: Authorization,
  nowSeconds: number,
  facilitators: ReadonlySet<string>,
): Refusal | undefined {
  if (to !== terms.payTo.toLowerCase())
    return refuse(reasons.permit2Recipient, `Expected witness.to to be ${terms.payTo}.`)
  if (value !== terms.amount)
    return refuse(reasons.permit2Amount, `Expected permitted.amount to be exactly ${terms.amount}.`)
  const facilitator = permit2?.facilitator ?? null
  if (facilitator !== null && !facilitators.has(facilitator))
    return refuse(
      reasons.uptoFacilitator,
      `Expected witness.facilitator to be ${terms.extra['facilitatorAddress']}, as extra.facilitatorAddress of the offer says.`,
    )
  const deadline = Number(validBefore)
  if (deadline < nowSeconds + MIN_LEAD_SECONDS)
    return refuse(
      reasons.permit2Deadline,
      `Expected deadline to be at least ${MIN_LEAD_SECONDS} seconds in the future.`,
    )
  if (deadline > nowSeconds + terms.maxTimeoutSeconds + CLOCK_SLACK_SECONDS)
    return refuse(reasons.permit2Deadline, `Expected deadline within ${terms.maxTimeoutSeconds} seconds.`)
  if (Number(validAfter) > nowSeconds)
    return refuse(reasons.permit2NotYetValid, 'Expected witness.validAfter not to be in the future.')
  return permit2?.allowance && judgeAllowancePermit(permit2.allowance.deadline, nowSeconds)
}

const typeHash = (type: string): Uint8Array => keccak256(Buffer.from(type, 'utf8'))

/** The words of a struct, of which the first is its type. */
function structOf(words: number, type: string): Buffer {
  const struct = Buffer.alloc(words * 32)
  struct.set(typeHash(type))
  return struct
}

const permissionsType = 'TokenPermissions(address token,uint256 amount)'
/** The types of the parts follow in alphabetical order. */
const permitType = (witnessType: string): string =>
  `PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,${witnessType.split('(')[0]} witness)${[permissionsType, witnessType].toSorted().join('')}`
const witnessTypes = {
  exact: 'Witness(address to,uint256 validAfter)',
  upto: 'Witness(address to,address facilitator,uint256 validAfter)',
  deposit: 'DepositWitness(bytes32 channelId)',
} as const

// One buffer serves every hash of a struct, because hashing is synchronous and no other call can use the buffer meanwhile.
const permissions = structOf(3, permissionsType)
const structs = {
  exact: { witness: structOf(3, witnessTypes.exact), permit: structOf(6, permitType(witnessTypes.exact)) },
  upto: { witness: structOf(4, witnessTypes.upto), permit: structOf(6, permitType(witnessTypes.upto)) },
  deposit: {
    witness: structOf(2, witnessTypes.deposit),
    permit: structOf(6, permitType(witnessTypes.deposit)),
  },
}

/** Hash of Permit2's EIP-712 domain on a chain, which has no version. @see https://eips.ethereum.org/EIPS/eip-712 */
export function permit2Separator(chainId: number): Uint8Array {
  const words = Buffer.alloc(4 * 32)
  words.set(typeHash('EIP712Domain(string name,uint256 chainId,address verifyingContract)'))
  words.set(typeHash('Permit2'), 32)
  writeUint(words, String(chainId), 64)
  words.write(permit2Address.slice(2), 96 + 12, 20, 'hex')
  return keccak256(words)
}

/** The 32 bytes that a payer signs for Permit2's `permitWitnessTransferFrom`. Numbers must fit in 256 bits. */
export function permit2Digest(
  separator: Uint8Array,
  authorization: Authorization,
  { token, spender, facilitator }: Permit2Part,
): Uint8Array {
  const { to, validAfter } = authorization
  const { witness, permit } = structs[facilitator === null ? 'exact' : 'upto']
  witness.write(to.slice(2), 32 + 12, 20, 'hex')
  if (facilitator !== null) witness.write(facilitator.slice(2), 64 + 12, 20, 'hex')
  writeUint(witness, validAfter, witness.length - 32)
  return permitDigest(separator, permit, witness, authorization, token, spender)
}

/** The 32 bytes that a payer signs for a deposit into a payment channel by Permit2. Its witness is the channel. */
export function depositPermitDigest(
  separator: Uint8Array,
  authorization: Authorization,
  { token, spender }: Permit2Part,
  channelId: string,
): Uint8Array {
  const { witness, permit } = structs.deposit
  witness.write(channelId.slice(2), 32, 32, 'hex')
  return permitDigest(separator, permit, witness, authorization, token, spender)
}

function permitDigest(
  separator: Uint8Array,
  permit: Buffer,
  witness: Buffer,
  { value, nonce, validBefore }: Authorization,
  token: string,
  spender: string,
): Uint8Array {
  permissions.write(token.slice(2), 32 + 12, 20, 'hex')
  writeUint(permissions, value, 64)
  permit.set(keccak256(permissions), 32)
  permit.write(spender.slice(2), 64 + 12, 20, 'hex')
  writeUint(permit, nonce, 96)
  writeUint(permit, validBefore, 128)
  permit.set(keccak256(witness), 160)
  return typedDataDigest(separator, keccak256(permit))
}
