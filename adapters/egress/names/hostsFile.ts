import { readFileSync, statSync } from 'node:fs'
import { isIP, SocketAddress } from 'node:net'

/** Shortest time between two checks of the file, in ms. */
const STAT_MS = 1_000

/** Path of the operating system's hosts file. */
export const systemHostsFile =
  process.platform === 'win32'
    ? `${process.env.SystemRoot ?? 'C:\\Windows'}\\System32\\drivers\\etc\\hosts`
    : '/etc/hosts'

/** Returns the addresses of a name in the file, as canonical IP addresses, IPv4 first. Empty if the name is not in the file. */
export type HostsFile = (host: string) => readonly string[]

/**
 * Creates the lookup in a hosts file. The lookup reads the file again when it has changed. A file that cannot be read counts as
 * empty. The read is synchronous, because all of Node's file threads may be busy, and the file is small and rarely read.
 */
export function createHostsFile(path: string): HostsFile {
  const isChanged = createWatch(path)
  let names: ReadonlyMap<string, readonly string[]> = new Map()
  return (host) => {
    if (isChanged()) names = readNames(path)
    return names.get(host.toLowerCase()) ?? []
  }
}

/** Creates the check whether the file has changed since the last check. The first check returns true. */
function createWatch(path: string): () => boolean {
  let checkedAtMs = Number.NEGATIVE_INFINITY
  let last = 'not looked at'
  return () => {
    const nowMs = performance.now()
    if (nowMs - checkedAtMs < STAT_MS) return false
    checkedAtMs = nowMs
    const now = statOf(path)
    if (now === last) return false
    last = now
    return true
  }
}

function statOf(path: string): string {
  try {
    const { ino, size, mtimeMs } = statSync(path)
    return `${ino} ${size} ${mtimeMs}`
  } catch {
    return 'none'
  }
}

function readNames(path: string): Map<string, readonly string[]> {
  const names = new Map<string, string[]>()
  for (const line of textOf(path).split('\n')) {
    const [text = '', ...hosts] = line.replace(/#.*/s, '').trim().split(/\s+/)
    const address = canonical(text)
    if (address === undefined) continue
    for (const host of hosts) {
      const known = names.get(host.toLowerCase()) ?? []
      if (!known.includes(address)) names.set(host.toLowerCase(), [...known, address])
    }
  }
  for (const addresses of names.values()) addresses.sort((a, b) => isIP(a) - isIP(b))
  return names
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/**
 * Returns the address in the one form that address policies read. An address with a zone has no such form, because it is
 * unreachable without the zone.
 */
function canonical(text: string): string | undefined {
  const family = isIP(text)
  if (family === 0 || text.includes('%')) return undefined
  return new SocketAddress({ address: text, family: family === 4 ? 'ipv4' : 'ipv6' }).address
}
