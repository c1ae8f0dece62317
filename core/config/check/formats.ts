import { isIP } from 'node:net'
import { familyOf } from '../../domain/network.ts'
import type { OptionFormat } from '../../plugin/options.ts'

interface Format {
  readonly test: (text: string) => boolean
  /** What was expected, as a text that follows the word "Expected". */
  readonly expected: string
}

/** The formats of option schemas, each with its check and its explanation. */
export const formats: Readonly<Record<OptionFormat, Format>> = {
  url: { test: isUrl, expected: 'a URL' },
  path: { test: (text) => !text.includes('\0'), expected: 'the path of a file' },
  cidr: { test: isCidr, expected: 'an address range such as 10.0.0.0/8 or fd00::/8' },
  'ip-port': { test: isIpPort, expected: 'an IP address such as 1.1.1.1 or 127.0.0.1:5353' },
  caip2: {
    test: (text) => familyOf(text) !== undefined,
    expected: 'a CAIP-2 network id such as eip155:8453 or solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
  },
  decimal: {
    test: (text) => /^\d{1,30}(\.\d{1,30})?$/.test(text),
    expected: 'a decimal number in quotes, such as "0.25"',
  },
}

/** Maximum length of a URL, in characters. Longer URLs do not occur in practice, and parsing one could take long. */
const MAX_URL_CHARS = 2_048

function isUrl(text: string): boolean {
  // The parser reads `http:///x` as `http://x`, so this form is refused. The URL of a database may have no host.
  if (text.length > MAX_URL_CHARS || /^https?:\/\/[/?#]/i.test(text)) return false
  return /^[a-z][a-z0-9+.-]*:\/\/\S+$/i.test(text) && URL.canParse(text)
}

function isCidr(text: string): boolean {
  const [, address, bits] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? []
  if (address === undefined || address.includes('%')) return false
  const version = isIP(address)
  return version !== 0 && Number(bits) <= (version === 4 ? 32 : 128)
}

function isIpPort(text: string): boolean {
  if (isIP(text) !== 0) return true
  const [, v6, v4, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? []
  return isIP(v6 ?? v4 ?? '') !== 0 && Number(port) >= 1 && Number(port) <= 65_535
}
