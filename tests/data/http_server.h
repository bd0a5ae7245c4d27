#pragma once
// A web server on loopback that serves one file, for the tests of data/http_download.cpp. It
// supports ranges or pretends not to, and can close a connection early.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tensor/error.h"

namespace rondo::test {

class HttpServer {
 public:
  struct Behaviour {
    bool ranges = true;
    /// Close the connection after this many bytes of the first answer's body; -1: do not.
    std::int64_t hang_up_after = -1;
    int status = 200;
    /// Send the first answer one byte at a time, 20 per second, and answer no other request.
    bool trickles = false;
    /// Redirect the client to this address.
    std::string redirect = {};
  };

  HttpServer(std::string file, Behaviour behaviour)
      : file_(std::move(file)), behaviour_(behaviour) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    require(bind(listener_, generic, size) == 0 && listen(listener_, 8) == 0 &&
                getsockname(listener_, generic, &size) == 0,
            "no socket on loopback");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/file"; }
  /// The first byte that each request wanted.
  std::vector<std::size_t> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    for (int client; (client = accept(listener_, nullptr, nullptr)) >= 0; close(client)) {
      std::string request;
      char buffer[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const auto got = recv(client, buffer, sizeof(buffer), 0);
        if (got <= 0) break;
        request.append(buffer, static_cast<std::size_t>(got));
      }
      const std::string answer = answer_to(request);
      if (behaviour_.trickles && requests().size() > 1) continue;
      const std::size_t head = answer.find("\r\n\r\n") + 4;
      for (std::size_t sent = 0; sent < answer.size();) {
        const bool slowly = behaviour_.trickles && sent >= head;
        if (slowly) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        const std::size_t size = slowly ? 1 : sent < head ? head - sent : answer.size() - sent;
        const auto some = send(client, answer.data() + sent, size, MSG_NOSIGNAL);
        if (some <= 0) break;
        sent += static_cast<std::size_t>(some);
      }
    }
  }

  std::string answer_to(const std::string& request) {
    std::size_t first = 0;
    if (const auto at = request.find("Range: bytes="); at != std::string::npos) {
      first = std::stoul(request.substr(at + 13));
    }
    std::lock_guard lock(mutex_);
    requests_.push_back(first);
    if (behaviour_.status != 200) {
      return concat("HTTP/1.1 ", behaviour_.status,
                    " No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    if (!behaviour_.redirect.empty()) {
      return concat("HTTP/1.1 302 Found\r\nLocation: ", behaviour_.redirect,
                    "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    if (!behaviour_.ranges) first = 0;
    if (first >= file_.size() && first > 0) {
      return "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    }
    std::string head = first > 0 ? concat("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes ",
                                          first, "-", file_.size() - 1, "/", file_.size(), "\r\n")
                                 : std::string("HTTP/1.1 200 OK\r\n");
    head += concat("Content-Length: ", file_.size() - first, "\r\nConnection: close\r\n\r\n");
    std::string body = file_.substr(first);
    if (behaviour_.hang_up_after >= 0 && requests_.size() == 1) {
      body.resize(static_cast<std::size_t>(behaviour_.hang_up_after));
    }
    return head + body;
  }

  const std::string file_;
  const Behaviour behaviour_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::size_t> requests_;
  std::thread thread_;
};

}  // namespace rondo::test
