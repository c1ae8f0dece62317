import { addressWord, bytesWords, type EvmCall, uintWord } from './token.ts'

/**
 * Permit2, which moves a token by the payer's signature if the payer has allowed it to. It has the same address on every chain.
 *
 * @see https://github.com/Uniswap/permit2
 */
export const permit2Address = '0x000000000022d473030f116ddee9f6b43ac78ba3'
/** The x402 proxies of Permit2, one a scheme. A payment's permit names its proxy as the spender. Any account may call `exact`. */
export const permit2Proxies = {
  exact: '0x402085c248eea27d92e8b30b2c58ed07f9e20001',
  upto: '0x4020a4f3b7b90cca423b9fabcc0ce57c6c240002',
} as const

/**
 * Whether a payment's nonce belongs to Permit2. Permit2's nonces are written in decimal digits, and those of EIP-3009 as 32 bytes in
 * hex.
 */
export const isPermit2Nonce = (nonce: string): boolean => /^\d{1,78}$/.test(nonce)

/** Read-only calls about a payment by Permit2. */
export const permit2 = {
  /** nonceBitmap(address,uint256): the bits of 256 nonces of the payer. */
  nonceBitmap: (payer: string, nonce: string): EvmCall => ({
    to: permit2Address,
    data: `0x4fe02b44${addressWord(payer)}${uintWord((BigInt(nonce) >> 8n).toString())}`,
  }),
  /** nonces(address) of the token: the nonce of the payer's next permit (EIP-2612). */
  permitNonce: (asset: string, payer: string): EvmCall => ({
    to: asset,
    data: `0x7ecebe00${addressWord(payer)}`,
  }),
  /** allowance(address,address): how much of the payer's tokens Permit2 may move. */
  allowance: (asset: string, payer: string): EvmCall => ({
    to: asset,
    data: `0xdd62ed3e${addressWord(payer)}${addressWord(permit2Address)}`,
  }),
} as const

/** Whether a nonce is used or invalidated, by the word of `nonceBitmap`. */
export const isUsedIn = (bitmap: bigint, nonce: string): boolean =>
  ((bitmap >> (BigInt(nonce) & 0xffn)) & 1n) === 1n

/** A call of `approve` that lets Permit2 move the payer's tokens without a limit, for wallets and messages. */
export const approvalCall = (asset: string): EvmCall => ({
  to: asset,
  data: `0x095ea7b3${addressWord(permit2Address)}${'f'.repeat(64)}`,
})

/** A payment by Permit2 as the proxy gets it. Addresses are in lower case, and numbers in decimal digits. */
export interface Permit2Payment {
  readonly token: string
  /** The permitted amount, which is the most that can be charged. */
  readonly value: string
  readonly nonce: string
  /** Seconds since 1970. The transfer may still happen in this second. */
  readonly validBefore: string
  readonly from: string
  readonly to: string
  /** The only account that may call the proxy of `upto`. Null for `exact`. */
  readonly facilitator: string | null
  readonly validAfter: string
  readonly signature: string
  /** Set if the payer has to allow Permit2 first, and lets the settler do so. */
  readonly allowance?: TokenPermit | undefined
}

/** A permit of the token (EIP-2612) by which Permit2 may move exactly the permitted amount of a payment. */
export interface TokenPermit {
  /** The payer's nonce at the token, which each permit uses up. */
  readonly nonce: string
  /** Seconds since 1970. */
  readonly deadline: string
  /** 65 bytes. */
  readonly signature: string
}

const selectors = {
  exact: '0x13cd3b53',
  upto: '0xff11e7b4',
  exactWithPermit: '0xfa340378',
  uptoWithPermit: '0x016c1748',
} as const

/**
 * The call that settles a payment, which is `settle` of its proxy. With a permit of the token it is `settleWithPermit`, in which the
 * permit may fail, because it may have been submitted before.
 *
 * @param amountAtomic the amount to charge. A payment by `exact` is always charged its permitted amount
 */
export function settleCall(payment: Permit2Payment, amountAtomic: bigint): EvmCall {
  const { token, value, nonce, validBefore, from, to, facilitator, validAfter, signature, allowance } =
    payment
  const scheme = facilitator === null ? 'exact' : 'upto'
  const head = [
    ...(allowance === undefined ? [] : permitWords(value, allowance)),
    addressWord(token),
    uintWord(value),
    uintWord(nonce),
    uintWord(validBefore),
    ...(facilitator === null ? [] : [uintWord(amountAtomic.toString())]),
    addressWord(from),
    addressWord(to),
    ...(facilitator === null ? [] : [addressWord(facilitator)]),
    uintWord(validAfter),
  ]
  const selector = selectors[allowance === undefined ? scheme : (`${scheme}WithPermit` as const)]
  const offset = uintWord(String((head.length + 1) * 32))
  return {
    to: permit2Proxies[scheme],
    data: `${selector}${head.join('')}${offset}${bytesWords(signature)}`,
  }
}

/** The struct EIP2612Permit(value, deadline, r, s, v) of the proxies. */
function permitWords(value: string, { deadline, signature }: TokenPermit): string[] {
  const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130)]
  return [uintWord(value), uintWord(deadline), r, s, v.padStart(64, '0')]
}

/** A payment in data that {@link settleCall} or another settler has made. */
export interface SettledPermit extends Omit<Permit2Payment, 'signature' | 'validAfter' | 'allowance'> {
  readonly amountAtomic: bigint
}

/** Reads a call of a proxy. Undefined for any other call. */
export function readSettleCall({ to, data }: EvmCall): SettledPermit | undefined {
  const selector = data.slice(0, 10).toLowerCase()
  const isUpto = selector === selectors.upto || selector === selectors.uptoWithPermit
  if (!isUpto && selector !== selectors.exact && selector !== selectors.exactWithPermit) return undefined
  if (to.toLowerCase() !== permit2Proxies[isUpto ? 'upto' : 'exact']) return undefined
  const hasPermit = selector === selectors.uptoWithPermit || selector === selectors.exactWithPermit
  const words = data.slice(10).toLowerCase().match(/.{64}/g) ?? []
  const [token, value, nonce, validBefore, ...rest] = words.slice(hasPermit ? 5 : 0)
  const [amount, from, payTo, facilitator] = isUpto ? rest : [value, ...rest]
  if (facilitator === undefined) return undefined
  return {
    token: addressIn(token!),
    value: uintIn(value!).toString(),
    nonce: uintIn(nonce!).toString(),
    validBefore: uintIn(validBefore!).toString(),
    from: addressIn(from!),
    to: addressIn(payTo!),
    facilitator: isUpto ? addressIn(facilitator) : null,
    amountAtomic: uintIn(amount!),
  }
}

const addressIn = (word: string): string => `0x${word.slice(24)}`
const uintIn = (word: string): bigint => BigInt(`0x${word}`)
