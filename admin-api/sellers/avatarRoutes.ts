import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { callerOf, limitPerClient, MINUTE_MS } from '../http/callers.ts'
import { bodyField } from '../http/fields.ts'
import { exactly, field, ok, respond, success } from '../http/responses.ts'
import { validationError } from '../http/validation.ts'
import { type AvatarImage, ImageFault, MAX_IMAGE_BYTES, readImage } from './avatarImage.ts'
import { changeStore, takeChange } from './profileChanges.ts'

/** Maximum number of uploads per store and hour. Each writes up to a megabyte. */
const IMAGES_PER_HOUR = 20
/** Maximum number of bytes that a multipart form adds to the image. */
const FORM_BYTES = 8_192
/** Maximum number of downloads per client and minute. A marketplace page shows a few dozen images, and browsers cache them. */
const IMAGES_PER_MINUTE = 1_200

const extensions: Readonly<Record<AvatarImage['mediaType'], string>> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/gif': 'gif',
  'image/webp': 'webp',
}

const addressBody = {
  type: 'object',
  additionalProperties: false,
  required: ['avatarUrl'],
  properties: {
    avatarUrl: {
      ...bodyField.httpUrl,
      description:
        'The https URL of the image. The service does not fetch the URL. null or an empty text removes the image.',
    },
  },
} as const

const formBody = {
  type: 'object',
  required: ['file'],
  properties: {
    file: { description: 'A PNG, JPEG, WebP or GIF image of at most 1 MB and 4096 pixels per side.' },
  },
} as const

/** `POST /api/v1/avatar` sets the image of the caller's store, by its URL or as a file. */
export async function avatarRoutes(app: FastifyInstance, api: Api): Promise<void> {
  // The parser is registered only for this route, because no other route accepts forms.
  await app.register(async (scope) => {
    scope.addContentTypeParser(
      'multipart/form-data',
      { parseAs: 'buffer' },
      async (request: FastifyRequest, body: Buffer) => ({
        file: await fileOf(request, body),
      }),
    )
    scope.post<{ Body: { avatarUrl: string | null } | { file: Buffer } }>(
      '/api/v1/avatar',
      {
        bodyLimit: MAX_IMAGE_BYTES + FORM_BYTES,
        schema: {
          summary: 'Change the store image',
          description:
            'Send JSON with the URL of the image, or a form with the image as `file`. This service stores and serves an uploaded image. The service removes EXIF data, comments and any bytes after the end of the image.',
          body: {
            content: {
              'application/json': { schema: addressBody },
              'multipart/form-data': { schema: formBody },
            },
          },
          response: respond({ 200: success(exactly({ avatarUrl: field.text() })) }, [400, 401, 413, 429]),
        },
      },
      async (request) => {
        const { store } = callerOf(request)
        const { body } = request
        if ('file' in body) {
          const image = imageOf(body.file)
          await takeChange(api, store, 'image', IMAGES_PER_HOUR)
          const hash = createHash('sha256').update(image.bytes).digest('hex')
          const avatarUrl = `${api.publicUrl}/avatar/${hash}.${extensions[image.mediaType]}`
          await api.images.set(store.id, { hash, ...image }, avatarUrl, api.clock.now())
          api.announce({ kind: 'store', username: store.username })
          return ok({ avatarUrl })
        }
        const avatarUrl = body.avatarUrl ?? ''
        // The current value may be sent back even if it does not use https, because the service itself may not.
        if (avatarUrl !== store.avatarUrl && avatarUrl !== '' && !avatarUrl.startsWith('https://')) {
          const message = 'Expected a URL that begins with https://. You can also upload the image as a file.'
          throw validationError([{ path: 'avatarUrl', code: 'format', message }])
        }
        return ok({ avatarUrl: (await changeStore(api, store, { avatarUrl })).avatarUrl })
      },
    )
  })
}

/**
 * `/avatar/<hash>.<ext>` is an uploaded image. Its type comes from its bytes, so browsers need not guess it. Its address is the
 * hash of its content, so the image at an address never changes.
 */
export function imageRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Params: { name: string } }>(
    '/avatar/:name',
    {
      config: { anyOrigin: true },
      schema: { hide: true },
      onRequest: limitPerClient(api, 'picture', IMAGES_PER_MINUTE, MINUTE_MS),
    },
    async (request, reply) => sendImage(api, request.params.name, request.headers, reply),
  )
}

async function sendImage(
  api: Api,
  name: string,
  headers: FastifyRequest['headers'],
  reply: FastifyReply,
): Promise<FastifyReply> {
  const [, hash, extension] = /^([0-9a-f]{64})\.(png|jpg|gif|webp)$/.exec(name) ?? []
  const image = hash === undefined ? undefined : await api.images.find(hash)
  if (image === undefined || extensions[image.mediaType as AvatarImage['mediaType']] !== extension)
    throw new TollgateError('NOT_FOUND', 'The image at this address no longer exists.')
  const etag = `"${hash}"`
  reply
    .header('etag', etag)
    .header('cache-control', 'public, max-age=31536000, immutable')
    .header('x-content-type-options', 'nosniff')
    .header('content-security-policy', "default-src 'none'; sandbox")
    .header('cross-origin-resource-policy', 'cross-origin')
  const known = headers['if-none-match']?.split(',').map((one) => one.trim().replace(/^W\//, ''))
  if (known?.includes(etag)) return reply.code(304).send()
  const { buffer, byteOffset, byteLength } = image.bytes
  return reply.type(image.mediaType).send(Buffer.from(buffer, byteOffset, byteLength))
}

/** The only file in a form. @throws `VALIDATION_ERROR` */
async function fileOf(request: FastifyRequest, body: Buffer): Promise<Buffer> {
  const type = request.headers['content-type']!
  let form: FormData
  try {
    form = await new Response(new Uint8Array(body), { headers: { 'content-type': type } }).formData()
  } catch (cause) {
    throw new TollgateError('VALIDATION_ERROR', 'The form cannot be parsed. Send multipart/form-data.', {
      cause,
    })
  }
  const files = [...form].filter(([, value]) => typeof value !== 'string')
  const [found] = files
  if (files.length !== 1 || found![0] !== 'file')
    throw badFile(
      `Expected one file in the field file, got ${files.length === 0 ? 'none' : `${files.map(([name]) => name.slice(0, 40)).slice(0, 5)}`}.`,
    )
  return Buffer.from(await (found![1] as File).arrayBuffer())
}

function imageOf(file: Buffer): AvatarImage {
  if (file.length > MAX_IMAGE_BYTES)
    throw new TollgateError(
      'PAYLOAD_TOO_LARGE',
      `Expected an image of at most 1 MB, got ${file.length} bytes.`,
    )
  try {
    return readImage(file)
  } catch (error) {
    if (error instanceof ImageFault) throw badFile(error.message)
    throw error
  }
}

const badFile = (message: string) => validationError([{ path: 'file', code: 'format', message }])
