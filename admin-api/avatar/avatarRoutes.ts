import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { changeStore, takeChange } from '../profile/changeProfile.ts'
import { answers, exactly, success, text } from '../schema/answers.ts'
import { httpUrlField } from '../schema/fields.ts'
import { validationError } from '../schema/validationError.ts'
import { PictureFault } from './pictureParts.ts'
import { MAX_PICTURE_BYTES, type Picture, readPicture } from './readPicture.ts'

/** Each writes a megabyte at most. */
const PICTURES_PER_HOUR = 20
/** What a form puts around a picture. */
const FORM_BYTES = 8_192
/** A page of the marketplace shows some dozens of them; whoever has one does not ask again. */
const PICTURES_PER_MINUTE = 1_200

const extensions: Readonly<Record<Picture['mediaType'], string>> = {
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
      ...httpUrlField,
      description:
        'An https address, which is never fetched from here; null or empty takes the picture away.',
    },
  },
} as const

const formBody = {
  type: 'object',
  required: ['file'],
  properties: {
    file: { description: 'PNG, JPEG, WebP or GIF, 1 MB at most, 4096 pixels to a side at most.' },
  },
} as const

/** `POST /api/v1/avatar`: the picture of the caller's store, by its address or as a file. */
export async function avatarRoutes(app: FastifyInstance, api: Api): Promise<void> {
  // Of this route only: no other one reads forms.
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
        bodyLimit: MAX_PICTURE_BYTES + FORM_BYTES,
        schema: {
          summary: 'Change the picture',
          description:
            'JSON with its address, or a form with the picture as `file`. A picture is kept and shown from here, by what it holds and not by its name; EXIF, comments and whatever stands behind its end are left out.',
          body: {
            content: {
              'application/json': { schema: addressBody },
              'multipart/form-data': { schema: formBody },
            },
          },
          response: answers({ 200: success(exactly({ avatarUrl: text() })) }, 400, 401, 413, 429),
        },
      },
      async (request) => {
        const { store } = callerOf(request)
        const { body } = request
        if ('file' in body) {
          const picture = pictureOf(body.file)
          await takeChange(api, store, 'picture', PICTURES_PER_HOUR)
          const hash = createHash('sha256').update(picture.bytes).digest('hex')
          const avatarUrl = `${api.publicUrl}/avatar/${hash}.${extensions[picture.mediaType]}`
          await api.pictures.set(store.id, { hash, ...picture }, avatarUrl, api.clock.now())
          api.announce({ kind: 'store', username: store.username })
          return ok({ avatarUrl })
        }
        const avatarUrl = body.avatarUrl ?? ''
        // What was shown before may be sent back, also where the service itself has no https.
        if (avatarUrl !== store.avatarUrl && avatarUrl !== '' && !avatarUrl.startsWith('https://')) {
          const message = 'Expected a URL that begins with https://, or send the picture as a file.'
          throw validationError([{ path: 'avatarUrl', code: 'format', message }])
        }
        return ok({ avatarUrl: (await changeStore(api, store, { avatarUrl })).avatarUrl })
      },
    )
  })
}

/**
 * `/avatar/<hash>.<ext>`: a picture that was sent here. What it is was read from its bytes, so a browser has nothing to guess;
 * its address says what it holds, so it never changes.
 */
export function pictureRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Params: { name: string } }>(
    '/avatar/:name',
    {
      config: { anyOrigin: true },
      schema: { hide: true },
      onRequest: limitPerClient(api, 'picture', PICTURES_PER_MINUTE, minuteMs),
    },
    async (request, reply) => sendPicture(api, request.params.name, request.headers, reply),
  )
}

async function sendPicture(
  api: Api,
  name: string,
  headers: FastifyRequest['headers'],
  reply: FastifyReply,
): Promise<FastifyReply> {
  const [, hash, extension] = /^([0-9a-f]{64})\.(png|jpg|gif|webp)$/.exec(name) ?? []
  const picture = hash === undefined ? undefined : await api.pictures.find(hash)
  if (picture === undefined || extensions[picture.mediaType as Picture['mediaType']] !== extension)
    throw new TollgateError('NOT_FOUND', 'There is no picture at this address any more.')
  const etag = `"${hash}"`
  reply
    .header('etag', etag)
    .header('cache-control', 'public, max-age=31536000, immutable')
    .header('x-content-type-options', 'nosniff')
    .header('content-security-policy', "default-src 'none'; sandbox")
    .header('cross-origin-resource-policy', 'cross-origin')
  const known = headers['if-none-match']?.split(',').map((one) => one.trim().replace(/^W\//, ''))
  if (known?.includes(etag)) return reply.code(304).send()
  const { buffer, byteOffset, byteLength } = picture.bytes
  return reply.type(picture.mediaType).send(Buffer.from(buffer, byteOffset, byteLength))
}

/** The one file of a form. @throws `VALIDATION_ERROR` */
async function fileOf(request: FastifyRequest, body: Buffer): Promise<Buffer> {
  const type = request.headers['content-type']!
  let form: FormData
  try {
    form = await new Response(new Uint8Array(body), { headers: { 'content-type': type } }).formData()
  } catch (cause) {
    throw new TollgateError('VALIDATION_ERROR', 'The form can not be read; send multipart/form-data.', {
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

function pictureOf(file: Buffer): Picture {
  if (file.length > MAX_PICTURE_BYTES)
    throw new TollgateError('PAYLOAD_TOO_LARGE', `The picture is larger than 1 MB: ${file.length} bytes.`)
  try {
    return readPicture(file)
  } catch (error) {
    if (error instanceof PictureFault) throw badFile(error.message)
    throw error
  }
}

const badFile = (message: string) => validationError([{ path: 'file', code: 'format', message }])
