import { isSameAddress } from '../../../core/domain/address.ts'
import type { ChainFacts } from '../../effects/chains.ts'
import { hostOf, isPlainHost } from '../../effects/plainWords.ts'

/** A message that signs somebody in, taken apart. */
export interface SignIn {
  /** False where it begins like one and then is not what the standard says: a page could read it in another way. */
  readonly isWellFormed: boolean
  readonly scheme: string | undefined
  /** Host and port of whoever asks, as the message says. */
  readonly domain: string
  readonly chainTitle: string
  readonly address: string
  readonly statement: string | undefined
  /** By their names, `URI`, `Chain ID` and so on. */
  readonly fields: ReadonlyMap<string, string>
  readonly resources: readonly string[]
}

export interface SignInContext {
  /** Our account that would sign. */
  readonly address: string
  readonly facts: ChainFacts
  readonly nowMs: number
}

const head =
  /^(?:(?<scheme>[A-Za-z][A-Za-z0-9+.-]*):\/\/)?(?<domain>.*) wants you to sign in with your (?<chain>Ethereum|Solana) account:$/u
const names = [
  'URI',
  'Version',
  'Chain ID',
  'Nonce',
  'Issued At',
  'Expiration Time',
  'Not Before',
  'Request ID',
]
const looksAlike = /wants you to sign in with your/i
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/

/**
 * Reads a sign-in message: EIP-4361 (Sign-In with Ethereum) and what Solana's wallets make of it, where every field is
 * optional. Undefined for any other text.
 *
 * @see https://eips.ethereum.org/EIPS/eip-4361#abnf-message-format
 * @see https://github.com/phantom/sign-in-with-solana#abnf-message-format
 */
export function readSignIn(text: string): SignIn | undefined {
  const [first, address = '', ...rest] = text.split('\n')
  const found = head.exec(first!)?.groups
  if (found === undefined) return looksAlike.test(text) ? malformed() : undefined
  const { scheme, domain, chain } = found
  const isEthereum = chain === 'Ethereum'
  const body = readBody(rest, isEthereum)
  const fields = body?.fields ?? new Map<string, string>()
  const needed = isEthereum ? ['URI', 'Version', 'Chain ID', 'Nonce', 'Issued At'] : []
  const isComplete = needed.every((name) => fields.has(name))
  const hasTimes = ['Issued At', 'Expiration Time', 'Not Before'].every((name) => {
    const value = fields.get(name)
    return value === undefined || time.test(value)
  })
  return {
    isWellFormed: body !== undefined && isComplete && hasTimes && (fields.get('Version') ?? '1') === '1',
    scheme,
    domain: domain!,
    chainTitle: chain!,
    address,
    statement: body?.statement,
    fields,
    resources: body?.resources ?? [],
  }
}

/** Something that speaks of signing in without being a message of that form. */
const malformed = (): SignIn => ({
  isWellFormed: false,
  scheme: undefined,
  domain: '',
  chainTitle: '',
  address: '',
  statement: undefined,
  fields: new Map(),
  resources: [],
})

/** What follows the address: an empty line, the statement, an empty line, fields in their order, resources. */
function readBody(lines: readonly string[], isEthereum: boolean) {
  if (lines.length === 0)
    return isEthereum ? undefined : { statement: undefined, fields: new Map<string, string>(), resources: [] }
  if (lines[0] !== '') return undefined
  let at = 1
  let statement: string | undefined
  const isField = (line: string | undefined) =>
    line !== undefined && (names.some((name) => line.startsWith(`${name}: `)) || line === 'Resources:')
  if (lines[at] === '') at++
  else if (!isField(lines[at])) {
    statement = lines[at++]
    if (lines[at] !== undefined && lines[at++] !== '') return undefined
  }
  const fields = new Map<string, string>()
  let next = 0
  for (; at < lines.length && lines[at] !== 'Resources:'; at++) {
    const line = lines[at]!
    const index = names.findIndex((name, i) => i >= next && line.startsWith(`${name}: `))
    if (index < 0) return undefined
    next = index + 1
    fields.set(names[index]!, line.slice(names[index]!.length + 2))
  }
  const resources = lines.slice(at + 1)
  return resources.every((line) => line.startsWith('- '))
    ? { statement, fields, resources: resources.map((line) => line.slice(2)) }
    : undefined
}

/** The first sentence of its card. */
export const signInWords = ({ domain, isWellFormed }: SignIn, { title }: ChainFacts): string =>
  isWellFormed
    ? `Sign in at ${isPlainHost(domain) ? domain : 'what the text names'} as this account (${title}).`
    : `Sign a text that speaks of signing in (${title}).`

/** What about a sign-in is not as it should be; the domain is the agent's word, so it is always for the owner to compare. */
export function signInWarnings(signIn: SignIn, { address, facts, nowMs }: SignInContext): string[] {
  if (!signIn.isWellFormed)
    return ['It looks like a sign-in and is not written as one: whoever gets it may read it in another way.']
  const { domain, scheme, fields, resources } = signIn
  const warnings: string[] = []
  const host = isPlainHost(domain) ? URL.parse(`https://${domain}`) : null
  if (host === null)
    warnings.push(
      'The domain that the text names is no plain host name: it may only look like one that you know.',
    )
  else if (/(?:^|\.)xn--/i.test(host.hostname))
    warnings.push(
      `The domain ${domain} is written in other letters than it will be shown in: it may only look like one that you know.`,
    )
  else if (/^[\d.]+$/.test(host.hostname))
    warnings.push(`The domain ${domain} is a bare address and no name.`)
  else if (domain !== domain.toLowerCase())
    // A capital I has the look of a small L.
    warnings.push(
      `The domain ${domain} is ${domain.toLowerCase()} in small letters: compare that with the one that you know.`,
    )
  if (scheme !== undefined && scheme !== 'https')
    warnings.push('It names another scheme at its beginning, and is not for https.')
  const uri = fields.get('URI')
  const target = uri === undefined ? undefined : URL.parse(uri)
  if (uri !== undefined && (target == null || host === null || target.host !== host.host))
    warnings.push(
      `It signs in at ${host === null ? 'one place' : domain}, but its URI is at ${hostOf(uri) ?? 'another'}.`,
    )
  else if (
    target != null &&
    (target.protocol !== 'https:' || target.username !== '' || target.password !== '')
  )
    warnings.push('Its URI is no plain https address: read it in the text.')
  const isEvm = facts.family === 'eip155'
  if ((signIn.chainTitle === 'Ethereum') !== isEvm)
    warnings.push(`It is a sign-in for ${signIn.chainTitle}, and the agent asks for ${facts.title}.`)
  const chainId = fields.get('Chain ID')
  if (chainId !== undefined && !chainNames(facts).includes(chainId))
    warnings.push(
      `It names ${/^\d{1,20}$/.test(chainId) ? `the chain ${chainId}` : 'another chain'}, and the agent asks for ${facts.title}.`,
    )
  if (!isSameAddress(facts.family, signIn.address, address))
    warnings.push('The account that it names is not the account that signs.')
  const [from, until] = ['Not Before', 'Expiration Time'].map((name) => Date.parse(fields.get(name) ?? ''))
  if (from! > nowMs) warnings.push(`It counts from ${new Date(from!).toISOString()} only.`)
  if (until! <= nowMs) warnings.push(`It ended at ${new Date(until!).toISOString()}.`)
  const grants = resources.filter((resource) => resource.startsWith('urn:recap:')).length
  if (grants > 0) warnings.push('It gives permissions beyond signing in (ReCap): read its resources.')
  return warnings
}

/** How a sign-in may name the chain; Solana's clusters by their names. */
const chainNames = ({ chainId, name, network }: ChainFacts): readonly string[] => {
  if (chainId !== undefined) return [String(chainId)]
  if (name === 'solana') return ['mainnet', 'mainnet-beta', 'solana:mainnet', network]
  return name === 'solana-devnet' ? ['devnet', 'solana:devnet', network] : [network]
}
