import { createSIWxPayload, encodeSIWxHeader, type SIWxPayload } from '@x402/extensions/sign-in-with-x'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'

/** The offer in a 402. */
export const offerIn = (headers: Headers) => JSON.parse(atob(headers.get('payment-required') ?? 'bnVsbA=='))

/** A wallet that signs the offers of 402 responses with the code of the extension's package. */
export function signingWallet(account = privateKeyToAccount(generatePrivateKey())) {
  /** The value of `SIGN-IN-WITH-X` for a link. @param change replaces fields after the signature */
  async function signIn(url: string, change: Partial<SIWxPayload> = {}): Promise<string> {
    const response = await fetch(url)
    await response.text()
    return sign(offerIn(response.headers), change)
  }
  async function sign(offer: SignInOffer, change: Partial<SIWxPayload> = {}): Promise<string> {
    const { info, supportedChains } = offer.extensions['sign-in-with-x']
    const payload = await createSIWxPayload({ ...info, ...supportedChains[0] } as never, account, info.uri)
    return encodeSIWxHeader({ ...payload, ...change })
  }
  return { address: account.address, account, signIn, sign }
}

export interface SignInOffer {
  readonly extensions: {
    readonly 'sign-in-with-x': {
      readonly info: { readonly uri: string; readonly [name: string]: unknown }
      readonly supportedChains: readonly { readonly chainId: string; readonly type: string }[]
    }
  }
}
