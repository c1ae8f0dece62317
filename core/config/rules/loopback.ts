import { isIPv4 } from 'node:net'

/** True for a host that only this machine can reach. */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' ||
  host.endsWith('.localhost') ||
  host === '::1' ||
  host === '[::1]' ||
  (isIPv4(host) && host.startsWith('127.'))
