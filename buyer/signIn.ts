import { type ChainFamily, familyOf, type NetworkId } from '../core/domain/network.ts'
import { decodeSellerHeader, encodeHeader } from '../core/x402/header.ts'
import { signInName } from '../core/x402/signIn.ts'
import { type SignInText, signInText } from '../core/x402/signInText.ts'
import { isObject, own } from '../core/x402/strictJson.ts'
import { callOnce, type HttpCall, HttpFailure, type HttpResponse, valuesOf } from './httpCall.ts'
import type { Wallets } from './payOptions.ts'

/** What came of a sign-in. */
export interface SignInEnd {
  /** The response of the signed-in call. Null if the server has not accepted the sign-in, or if no response came. */
  readonly response: HttpResponse | null
  readonly message: string
  /** Whether the signed-in call was sent but got no response, so that the server may have served it. */
  readonly mayBeServed: boolean
}

/** A line of plain text, so that no field of the signed text can forge another. */
const lineForm = /^[\x20-\x7e]{1,2048}$/
const nonceForm = /^[0-9A-Za-z]{8,128}$/
const timeForm = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/
const MAX_RESOURCES = 20

/** Whether a 402 offers to sign in with a wallet (x402 extension `sign-in-with-x`). */
export const offersSignIn = (response: HttpResponse): boolean => extensionIn(response) !== undefined

/**
 * Signs in to a 402 and repeats the call with the signature, which costs nothing. It signs only a text that names the called server.
 *
 * @param only the only network on which to sign. Undefined for all
 */
export async function signInTo(
  response: HttpResponse,
  call: HttpCall,
  wallets: Wallets,
  only: NetworkId | undefined,
): Promise<SignInEnd> {
  const extension = extensionIn(response)
  if (extension === undefined) return none('The server offers no sign-in')
  const text = readText(own(extension, 'info'), call.url)
  if (typeof text === 'string') return none(`The sign-in was refused: ${text}. Nothing was signed`)
  const chain = chainOf(own(extension, 'supportedChains'), wallets, only)
  if (chain === undefined) return none('No wallet of this run can sign in to the offered chains')
  const { network, type, address, sign } = chain
  const account = familyOf(network) === 'solana' ? 'Solana' : 'Ethereum'
  const signed = signInText(text, account, address, network.slice(network.indexOf(':') + 1))
  const header = encodeHeader({ ...text, chainId: network, type, address, signature: await sign(signed) })
  try {
    const called = await callOnce({ ...call, headers: [...call.headers, signInName, header] })
    if (called.status !== 402)
      return { response: called, message: `Signed in with ${address}`, mayBeServed: false }
    return none(`The server did not accept the sign-in of ${address} (${reasonIn(called)})`)
  } catch (error) {
    if (error instanceof HttpFailure)
      return none(`The signed-in call failed: ${error.message}`, error.mayHaveLeft)
    throw error
  }
}

const none = (message: string, mayBeServed = false): SignInEnd => ({
  response: null,
  message,
  mayBeServed,
})

type Fields = Readonly<Record<string, unknown>>

function offerIn(response: HttpResponse): Fields | undefined {
  const decoded = decodeSellerHeader(valuesOf(response.headers, 'payment-required')[0] ?? '')
  return decoded.ok ? decoded.value : undefined
}

function extensionIn(response: HttpResponse): Fields | undefined {
  const extensions = own(offerIn(response) ?? {}, 'extensions')
  const extension = isObject(extensions) ? own(extensions, signInName) : undefined
  return isObject(extension) ? extension : undefined
}

function reasonIn(response: HttpResponse): string {
  const reason = own(offerIn(response) ?? {}, 'error')
  return typeof reason === 'string' && /^\w{1,64}$/.test(reason) ? reason : 'no reason given'
}

/** The fields to sign, or why they must not be signed. */
function readText(info: unknown, called: URL): SignInText | string {
  if (!isObject(info)) return 'info is missing'
  const text = (name: string) => own(info, name)
  const [domain, uri, version, nonce] = ['domain', 'uri', 'version', 'nonce'].map(text)
  if (domain !== called.host) return `its domain is not ${called.host}`
  if (!isLine(uri) || URL.parse(uri)?.origin !== called.origin) return `its uri is not at ${called.origin}`
  if (version !== '1') return 'its version is not 1'
  if (typeof nonce !== 'string' || !nonceForm.test(nonce))
    return 'its nonce is not 8 letters or digits or more'
  const issuedAt = text('issuedAt')
  if (!isTime(issuedAt)) return 'issuedAt is not a time'
  for (const name of ['expirationTime', 'notBefore'])
    if (text(name) !== undefined && !isTime(text(name))) return `${name} is not a time`
  for (const name of ['statement', 'requestId'])
    if (text(name) !== undefined && !isLine(text(name))) return `${name} is not a line of plain text`
  const resources = text('resources') ?? undefined
  const isList = Array.isArray(resources) && resources.length <= MAX_RESOURCES && resources.every(isLine)
  if (resources !== undefined && !isList) return 'resources is not a list of addresses'
  const optional = Object.fromEntries(
    ['statement', 'expirationTime', 'notBefore', 'requestId'].map((name) => [name, text(name)]),
  )
  return { domain, uri, version, nonce, issuedAt, ...optional, resources } as SignInText
}

const isLine = (value: unknown): value is string => typeof value === 'string' && lineForm.test(value)
const isTime = (value: unknown): value is string => typeof value === 'string' && timeForm.test(value)

interface SignInChain {
  readonly network: NetworkId
  readonly type: string
  readonly address: string
  sign(text: string): Promise<string>
}

/** The first offered chain on which a wallet of this run signs texts. */
function chainOf(offered: unknown, wallets: Wallets, only: NetworkId | undefined): SignInChain | undefined {
  for (const chain of Array.isArray(offered) ? offered : []) {
    const network = isObject(chain) ? own(chain, 'chainId') : undefined
    if (typeof network !== 'string' || (only !== undefined && network !== only)) continue
    const family: ChainFamily | undefined = familyOf(network)
    const buyer = family === undefined ? undefined : wallets[family]
    const type = family === 'solana' ? 'ed25519' : 'eip191'
    if (buyer?.signText === undefined || own(chain, 'type') !== type) continue
    const { address } = buyer
    return { network: network as NetworkId, type, address, sign: (text) => buyer.signText!(text) }
  }
}
