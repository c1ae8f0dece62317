import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import { type Asset, readAsset, webManifest } from '../../web/render/assets.ts'

/** `/assets/<name>-<hash>.<ext>`: what pages load. The name changes with the bytes, so they may be kept for ever. */
export function assetRoute(app: FastifyInstance): void {
  // A service without its pages says so when it starts, not to the first who looks.
  webManifest()
  app.get<{ Params: { name: string } }>(
    '/assets/:name',
    { config: { answers404: true }, schema: { hide: true } },
    async (request, reply) => {
      const asset = readAsset(request.params.name)
      if (asset === undefined)
        throw new TollgateError('NOT_FOUND', 'There is no such file; pages name those there are.')
      reply.header('cache-control', 'public, max-age=31536000, immutable')
      return sendAsset(request, reply, asset)
    },
  )
}

/** Sends a built file in the shortest form that the client takes. */
export function sendAsset(request: FastifyRequest, reply: FastifyReply, asset: Asset): FastifyReply {
  reply.type(asset.type).header('vary', 'Accept-Encoding')
  const coding = codingFor(request.headers['accept-encoding'])
  if (coding === undefined) return reply.send(asset.plain)
  return reply.header('content-encoding', coding).send(coding === 'br' ? asset.brotli : asset.gzip)
}

/** The shortest form that the client takes (RFC 9110, section 12.5.3); `;q=0` is a refusal. */
function codingFor(header = ''): 'br' | 'gzip' | undefined {
  const taken = header
    .split(',')
    .map((one) => one.trim().toLowerCase())
    .filter((one) => !/;\s*q=0(\.0*)?$/.test(one))
    .map((one) => one.split(';')[0]!.trim())
  return taken.includes('br') ? 'br' : taken.includes('gzip') ? 'gzip' : undefined
}
