-- Driven by harness/load.ts. Arguments after `--`: method, path, file with the body ('-' for none). Prints one JSON line.
local whole

function init(args)
  local method, path, bodyFile = args[1], args[2], args[3]
  local head = method .. ' ' .. path .. ' HTTP/1.1\r\nHost: gateway.test\r\nAccept: */*\r\n'
  if bodyFile == '-' then
    whole = head .. '\r\n'
    return
  end
  local file = io.open(bodyFile, 'rb')
  local body = file:read('*a')
  file:close()
  whole = head .. 'Content-Type: application/json\r\nContent-Length: ' .. #body .. '\r\n\r\n' .. body
end

function request()
  return whole
end

function done(summary)
  local e = summary.errors
  io.write(string.format('\n{"requests":%d,"refused":%d,"broken":%d,"seconds":%f}\n',
    summary.requests, e.status, e.connect + e.read + e.write + e.timeout, summary.duration / 1e6))
end
