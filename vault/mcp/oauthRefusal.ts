import type { Mount } from '../http/server.ts'

const body = JSON.stringify({
  error: 'access_denied',
  error_description:
    "This vault has no OAuth. Put an agent's token into the headers that your client sends, Authorization: Bearer vat_…, as printed by `tollgate vault agents add`.",
})

/**
 * `/register`: many MCP clients take every 401 for an invitation to OAuth, find no metadata, and end by registering themselves
 * here (RFC 7591, section 3.2.2). What they are told then is what they show.
 */
export const oauthRefusal: Mount = {
  path: '/register',
  isPage: false,
  handle(_req, res) {
    res
      .writeHead(400, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'cache-control': 'no-store',
      })
      .end(body)
  },
}
