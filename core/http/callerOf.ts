/**
 * The bucket of an address: IPv4 as it is, IPv6 by its /64, because one subscriber has a whole one.
 * An IPv4 address in IPv6 form counts as the IPv4 one.
 */
export function callerOf(ip: string): string {
  if (!ip.includes(':')) return ip
  if (ip.includes('.') && /^::ffff:/i.test(ip)) return ip.slice(7)
  const [head = '', tail] = ip.split('::', 2) as [string, string?]
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : 8 - left.length - right.length
  const groups = [...left, ...Array<string>(Math.max(zeros, 0)).fill('0'), ...right]
  return groups
    .slice(0, 4)
    .map((g) => Number.parseInt(g, 16).toString(16))
    .join(':')
}
