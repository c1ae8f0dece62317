import { isSameAddress } from '../../../core/domain/address.ts'
import type { ChainFacts } from '../../effects/assets.ts'
import { hostOf, isPlainHost } from '../../effects/plainWords.ts'

/** A sign-in message, parsed. */
export interface SignIn {
  /** False if the text begins like a sign-in but breaks the standard. A site could read such a text differently. */
  readonly isWellFormed: boolean
  readonly scheme: string | undefined
  /** Host and port of the site that requests the sign-in, as the message states them. */
  readonly domain: string
  readonly chainTitle: string
  readonly address: string
  readonly statement: string | undefined
  /** Fields by name: `URI`, `Chain ID` and so on. */
  readonly fields: ReadonlyMap<string, string>
  readonly resources: readonly string[]
}

export interface SignInContext {
  /** The vault's account that would sign. */
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
 * Reads a sign-in message in the format of EIP-4361 (Sign-In with Ethereum) or of Solana wallets, where every field is
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

/** A text about signing in that does not follow the standard. */
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

/**
 * Parses the lines after the address: an empty line, the statement, an empty line, the fields in their order, and the
 * resources.
 */
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

/** The first sentence of a sign-in's approval. */
export const signInWords = ({ domain, isWellFormed }: SignIn, { title }: ChainFacts): string =>
  isWellFormed
    ? `Sign in at ${isPlainHost(domain) ? domain : 'the site named in the text'} as this account (${title}).`
    : `Sign a text that looks like a sign-in but is not a standard one (${title}).`

/**
 * Warnings about a sign-in. The domain is only the agent's claim, so one of them asks the owner to compare it with the site.
 */
export function signInWarnings(signIn: SignIn, { address, facts, nowMs }: SignInContext): string[] {
  if (!signIn.isWellFormed)
    return [
      'The text looks like a sign-in but does not follow the standard, so a site may read it differently.',
    ]
  const { domain, scheme, fields, resources } = signIn
  const warnings: string[] = []
  const host = isPlainHost(domain) ? URL.parse(`https://${domain}`) : null
  if (host === null)
    warnings.push(
      'The domain in the text is not a plain host name and may only look like a name that you know.',
    )
  else if (/(?:^|\.)xn--/i.test(host.hostname))
    warnings.push(
      `The domain ${domain} is an internationalized name (xn--), so its letters may only look like those of a name that you know.`,
    )
  else if (/^[\d.]+$/.test(host.hostname)) warnings.push(`The domain ${domain} is an IP address, not a name.`)
  else if (domain !== domain.toLowerCase())
    // A capital I looks like a lower-case L.
    warnings.push(
      `The domain ${domain} is ${domain.toLowerCase()} in lower case. Compare this name with the name that you know.`,
    )
  if (scheme !== undefined && scheme !== 'https')
    warnings.push('The text starts with a scheme other than https.')
  const uri = fields.get('URI')
  const target = uri === undefined ? undefined : URL.parse(uri)
  if (uri !== undefined && (target == null || host === null || target.host !== host.host))
    warnings.push(
      `The text signs in at ${host === null ? 'one site' : domain}, but its URI is on ${hostOf(uri) ?? 'another'}.`,
    )
  else if (
    target != null &&
    (target.protocol !== 'https:' || target.username !== '' || target.password !== '')
  )
    warnings.push('The URI is not a plain https address. Read the URI in the text.')
  const isEvm = facts.family === 'eip155'
  if ((signIn.chainTitle === 'Ethereum') !== isEvm)
    warnings.push(`The text is a sign-in for ${signIn.chainTitle}, but the agent asked for ${facts.title}.`)
  const chainId = fields.get('Chain ID')
  if (chainId !== undefined && !chainNames(facts).includes(chainId))
    warnings.push(
      `The text names ${/^\d{1,20}$/.test(chainId) ? `the chain ${chainId}` : 'another chain'}, but the agent asked for ${facts.title}.`,
    )
  if (!isSameAddress(facts.family, signIn.address, address))
    warnings.push('The account in the text is not the account that signs.')
  const [from, until] = ['Not Before', 'Expiration Time'].map((name) => Date.parse(fields.get(name) ?? ''))
  if (from! > nowMs) warnings.push(`The text is not valid before ${new Date(from!).toISOString()}.`)
  if (until! <= nowMs) warnings.push(`The text expired at ${new Date(until!).toISOString()}.`)
  const grants = resources.filter((resource) => resource.startsWith('urn:recap:')).length
  if (grants > 0) warnings.push('The text grants permissions beyond signing in (ReCap). Read its resources.')
  return warnings
}

/** The names by which a sign-in may refer to the chain. Solana's clusters have names instead of ids. */
const chainNames = ({ chainId, name, network }: ChainFacts): readonly string[] => {
  if (chainId !== undefined) return [String(chainId)]
  if (name === 'solana') return ['mainnet', 'mainnet-beta', 'solana:mainnet', network]
  return name === 'solana-devnet' ? ['devnet', 'solana:devnet', network] : [network]
}
