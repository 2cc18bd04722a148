/**
 * One election. Keeps this relay in the list of members, then gives it its share of the partitions: it keeps those it
 * has, and takes free ones while it has too few. What it has too much is not prolonged, and not freed either: its
 * relay must stop working on it first.
 *
 * Who has most comes first when the remainder is shared out, so that a relay that joins does not take the lead from
 * one that has it.
 *
 * KEYS: the set of members; what keys of members begin with; the lock of each partition.
 * ARGV: the relay; how long it all lasts.
 * Returns the partitions of the relay, the owner of each partition, and how many relays there are.
 */
export const ELECT = `
local members, prefix, me, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local count = #KEYS - 2

redis.call('SADD', members, me)
redis.call('PEXPIRE', members, ttl)
redis.call('SET', prefix .. me, '', 'PX', ttl)

local owners, holds = {}, {}
for i = 1, count do
  local owner = redis.call('GET', KEYS[i + 2])
  owners[i] = owner
  if owner then holds[owner] = (holds[owner] or 0) + 1 end
end

local relays = {}
for _, id in ipairs(redis.call('SMEMBERS', members)) do
  if redis.call('EXISTS', prefix .. id) == 1 then
    relays[#relays + 1] = id
  else
    redis.call('SREM', members, id)
  end
end
table.sort(relays, function(a, b)
  local x, y = holds[a] or 0, holds[b] or 0
  if x ~= y then return x > y end
  return a < b
end)

local share = math.floor(count / #relays)
for rank = 1, count % #relays do
  if relays[rank] == me then share = share + 1 end
end

local own = {}
for i = 1, count do
  if owners[i] == me and #own < share then
    redis.call('PEXPIRE', KEYS[i + 2], ttl)
    own[#own + 1] = i - 1
  end
end
for i = 1, count do
  if not owners[i] and #own < share then
    redis.call('SET', KEYS[i + 2], me, 'NX', 'PX', ttl)
    owners[i] = me
    own[#own + 1] = i - 1
  end
end
return { own, owners, #relays }
`;

/** Frees locks, those that are still the relay's. KEYS: the locks. ARGV: the relay. */
export const RELEASE = `
for _, lock in ipairs(KEYS) do
  if redis.call('GET', lock) == ARGV[1] then redis.call('DEL', lock) end
end
`;
