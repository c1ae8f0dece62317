import { isLoopback } from '../../http/caller.ts'
import { mistake, type Rule, warning } from './rule.ts'

/** Rules that concern listeners, public address and counters together. */
export const serverRules: readonly Rule[] = [
  {
    reads: ['publicUrl', 'gateway'],
    *check({ config: { publicUrl, gateway }, shown }) {
      const { protocol, hostname } = new URL(publicUrl)
      if (protocol === 'http:' && !isLoopback(hostname)) {
        yield warning('/publicUrl', 'publicUrl is not https: payments and API keys are sent unencrypted.')
      }
      if (isLoopback(hostname) && !isLoopback(gateway.host)) {
        yield warning(
          '/publicUrl',
          `publicUrl is an address of this machine, but gateway.host (${shown('/gateway/host')}) accepts connections from other machines, which cannot pay.`,
          'Set publicUrl to the address that buyers use.',
        )
      }
    },
  },
  {
    reads: ['gateway', 'admin'],
    *check({ config: { gateway, admin }, shown }) {
      if (gateway.port !== 0 && gateway.port === admin.port) {
        yield mistake(
          '/admin/port',
          `admin.port (${shown('/admin/port')}) and gateway.port (${shown('/gateway/port')}) are the same.`,
          'Give each its own port.',
        )
      }
      if (!isLoopback(admin.host)) {
        yield warning(
          '/admin/host',
          'admin.host accepts connections from other machines, which bypass the limits of the gateway.',
          'Leave it at 127.0.0.1: the gateway forwards requests to it.',
        )
      }
    },
  },
  {
    reads: ['gateway'],
    *check({ config: { gateway }, shown }) {
      if (gateway.headersTimeoutMs <= gateway.requestTimeoutMs) return
      yield mistake(
        '/gateway/headersTimeoutMs',
        `gateway.headersTimeoutMs (${shown('/gateway/headersTimeoutMs')}) is longer than gateway.requestTimeoutMs (${shown('/gateway/requestTimeoutMs')}), which includes it.`,
      )
    },
  },
  {
    reads: ['counters', 'gateway'],
    *check({ config: { counters, gateway } }) {
      const { use, url } = counters
      if (use === 'redis' && url === undefined) {
        yield mistake(
          '/counters/use',
          'counters.use is redis, but counters.url is missing.',
          'Add counters.url, such as redis://127.0.0.1:6379.',
        )
      }
      if (use === 'memory' && url !== undefined) {
        yield mistake(
          '/counters/url',
          'counters.url has no effect with counters.use: memory.',
          'Set counters.use to redis, or remove counters.url.',
        )
      }
      if (use === 'redis' && url !== undefined && !/^rediss?:$/.test(new URL(url).protocol)) {
        yield mistake('/counters/url', 'counters.url has to begin with redis:// or rediss:// (TLS).')
      }
      if (gateway.workers > 1 && use === 'memory') {
        yield warning(
          '/gateway/workers',
          `gateway.workers is more than 1 and counters.use is memory: each worker counts rate limits separately, so a caller gets a multiple of them.`,
          'Set counters.use to redis.',
        )
      }
    },
  },
]
